//! `fathom tree` and `fathom clean`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// `fathom tree`.
#[derive(Debug, ClapArgs)]
pub struct Tree {
    /// What to do.
    #[command(subcommand)]
    pub command: TreeCommand,
}

/// What is done with trees of files.
#[derive(Debug, Subcommand)]
pub enum TreeCommand {
    /// Make a tree of files, or take up the one that is there already
    Build(TreeBuild),
    /// Read what a real directory is made of, names and sizes only, into a table that trees are built like
    Scan(TreeScan),
    /// Check a tree that was built: names, sizes, times and every byte; exit code 5 when something is not as it was made
    #[command(alias = "check")]
    Verify(TreeVerify),
}

/// `fathom tree build`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
DIR is new, empty, or has the same tree already, which is then checked and taken up. The same seed gives the same names, sizes \
and bytes everywhere. Without files= or size= it is 20 GB, as the classic trees had, or half of what may be used. 5 % and 1 GiB \
stay free, and 5 % of the inodes. The tree stays until fathom clean DIR removes it.

  files=N                 how many files
  size=20GB               how many bytes in files
  time=5m                 it ends, as a whole tree, after so long
  fan_out=3               directories in each directory
  depth=N                 levels of directories at most; 0: all files in DIR
  files_per_directory=11  files in each directory; more where depth is small
  file_size=lognormal:4k:1.93:16M
                          median, spread (sigma of the logarithm) and largest
  file_size=4k            one size for all files
  name_bytes=N            length of names, 12 to 255 [8 to 20 at random]
  table=FILE              sizes, names, numbers as found by fathom tree scan
  threads=N               threads that make files

  fathom tree build /srv/data/tree size=5GB
  fathom tree build /srv/data/tree files=1000000 depth=0 file_size=0
  fathom tree scan /home -o home.toml
  fathom tree build /srv/data/tree table=home.toml files=200000")]
pub struct TreeBuild {
    /// The directory of the tree
    pub dir: PathBuf,
    /// Settings, see below
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Compare also every byte of a tree that is there already
    #[arg(long)]
    pub verify: bool,
}

/// `fathom tree scan`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
No file is opened, and no name is stored: the table has lengths of names, sizes, and numbers. Mounts inside are not entered, links \
not followed.

  fathom tree scan /home
  fathom tree scan /home -o home.toml")]
pub struct TreeScan {
    /// The directory to read
    pub dir: PathBuf,
    /// Where the table goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file when it exists
    #[arg(long)]
    pub overwrite: bool,
}

/// `fathom tree verify`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
  fathom tree verify /srv/data/tree
  fathom tree verify /srv/data/tree --names    without reading the files")]
pub struct TreeVerify {
    /// The directory of the tree
    pub dir: PathBuf,
    /// Only names, sizes and times; no file is read
    #[arg(long)]
    pub names: bool,
}

/// `fathom clean`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Removes trees of files and kept test files in DIR and below it. A file goes when it is as fathom left it, or every byte in it is \
fathom's; a directory goes when it is empty. Everything else stays and is named. No link is followed and no mount crossed.

With --forget no file is touched, and DIR need not be there: what fathom still knows of test files on filesystems that were made anew or \
are not mounted any more is forgotten, so that fathom verify asks for it no longer. Of one in whose place nothing is mounted only where DIR is \
its mount point, or lies in it: it may come back. So may a device: what fathom verify knows of one is forgotten where DIR is its name.

  fathom clean /srv/data/tree
  fathom clean /srv --list          what there is
  fathom clean /mnt/old --forget    /mnt/old was formatted")]
pub struct Clean {
    /// A tree, or a directory above
    pub dir: PathBuf,
    /// Say what would be removed and what would stay, and remove nothing
    #[arg(long)]
    pub list: bool,
    /// Forget what is noted of test files that are not there any more, and touch no file
    #[arg(long, conflicts_with = "list")]
    pub forget: bool,
}
