//! A file server or a personality as the load of an experiment: the tree that readers read, the phases as one trial.
//!
//! On a filesystem that the plan's setup makes, the tree is built once, and is gone with it; every cell has the same one. In a
//! directory that is there already, what is there is read, unless the plan asks for a tree.

use crate::error::{ErrorClass, LabError};
use crate::fsop::{self, FsopOptions, whole};
use crate::lab::Lab;
use fathom_base::prng::Prng;
use fathom_base::units::{format_count, format_duration, format_ns, format_size};
use fathom_model::fsop::FsopSpec;
use fathom_model::fsop_plan;
use fathom_model::plan::{Metric, PlanWorkload};
use fathom_model::play_keys::{self, Personality};
use fathom_model::record::{Ending, Record};
use fathom_model::workload::Workload;
use fathom_study::fsop::trial;
use fathom_tree::build::{self, Builder};
use fathom_tree::error::{TreeError, TreeErrorClass};
use fathom_tree::spec::settings::Settings;
use fathom_tree::spec::{Amount, TreeSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much is read where nobody says, as `fathom tree build` has it.
const TREE_BYTES_DEFAULT: u64 = 20_000_000_000;

/// Trees are for comparing: always the same one.
const TREE_SEED: u64 = 1;

/// The tree's directory on a filesystem that was made for it.
const TREE_DIR: &str = "tree";

/// What is noted of a tree on such a filesystem lies on it too, and goes with it.
const NOTES_DIR: &str = ".fathom-notes";

/// Processes on trees of files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerLoad {
    /// Its phases.
    pub spec: FsopSpec,
    /// A directory of its own; once it is ready, what readers read and writers work in.
    pub target: Option<String>,
    /// The tree that is built before; none when nobody asks for one.
    tree: Option<Settings>,
}

/// What a trial came to.
pub(crate) struct Measured {
    /// The record of the last phase.
    pub record: Record,
    /// Those of the phases before it.
    pub parts: Vec<Record>,
    /// Figures by name.
    pub figures: BTreeMap<String, f64>,
}

/// The load that a plan's workload is; none when it is neither a file server nor a personality.
///
/// # Errors
/// [`LabError::Usage`] with the key that makes no sense.
pub(crate) fn load(asked: &PlanWorkload) -> Result<Option<ServerLoad>, LabError> {
    let Some(name) = asked.name.as_deref() else { return Ok(None) };
    let about = |reason: String| LabError::Usage(format!("workload '{}': {reason}", asked.label));
    let file = personality_file(name).map_err(about)?;
    let spec = fsop_plan::spec(name, &asked.settings, file).map_err(LabError::Usage)?;
    let Some(spec) = spec else { return Ok(None) };
    if spec.play.is_some() {
        return Ok(Some(ServerLoad { spec, target: asked.target.clone(), tree: None }));
    }
    let (_, tree) = fsop_plan::divide(&asked.settings);
    if let Some((key, value)) = tree.iter().find(|(key, _)| key == "time" || key == "table") {
        let text = format!(
            "tree_{key}={value}: every trial has the same tree; tree_files or tree_size say how large"
        );
        return Err(LabError::Usage(text));
    }
    let settings = Settings::parse(&tree);
    let settings = settings.map_err(|reason| LabError::Usage(format!("tree_{reason}")))?;
    let tree = (!tree.is_empty()).then_some(settings);
    Ok(Some(ServerLoad { spec, target: asked.target.clone(), tree }))
}

/// The personality in a workload file; what is no file, or cannot be read, is said where other workloads are.
fn personality_file(name: &str) -> Result<Option<Personality>, String> {
    let is_file = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    let text = is_file.then(|| std::fs::read_to_string(name).ok()).flatten();
    let Some(text) = text else { return Ok(None) };
    play_keys::parse(&text).map_err(|reason| format!("{name}: {reason}"))
}

impl ServerLoad {
    fn has_readers(&self) -> bool {
        self.spec.phases.iter().any(|phase| phase.readers > 0)
    }

    /// The tree that is built for it; none when it reads what is there, or nothing.
    fn tree(&self, is_fresh: bool, default: Amount) -> Option<TreeSpec> {
        let wanted = self.has_readers() && (is_fresh || self.tree.is_some());
        let settings = self.tree.clone().unwrap_or_default();
        wanted.then(|| settings.spec(TREE_SEED, None, default))
    }

    /// What records call it.
    pub fn workload(&self) -> Workload {
        fsop::workload_of(&self.spec)
    }

    /// About how large that tree is.
    pub fn tree_bytes(&self, is_fresh: bool) -> u64 {
        let spec = self.tree(is_fresh, Amount::Bytes(TREE_BYTES_DEFAULT));
        spec.map_or(0, |spec| match spec.amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Files(files) => (files as f64 * spec.sizes.mean()) as u64,
        })
    }

    /// What clients have when they begin, about.
    pub fn first_bytes(&self) -> u64 {
        self.spec.play.as_ref().map_or(0, |play| play.files.saturating_mul(play.sizes.mean()))
    }

    /// How long writers and clients work.
    pub fn writing_ns(&self) -> u64 {
        let phases = self.spec.phases.iter().filter(|phase| !phase.readers_alone());
        phases.fold(0, |sum, _| sum + self.spec.window_ns + self.spec.warmup_ns)
    }

    /// What it does, in a line.
    pub fn words(&self) -> String {
        let phases: Vec<String> = self.spec.phases.iter().map(|phase| phase.text()).collect();
        let time = format_duration(self.spec.planned_ns());
        if let Some(play) = &self.spec.play {
            let files = format_count(play.files);
            return format!("{}, {} on {files} files, {time}", play.name, phases.join("; "));
        }
        format!("file server, {} on trees of files, {time}", phases.join("; "))
    }

    /// Makes sure of the tree, and says where readers read and writers work. `is_fresh`: the filesystem at `target` was made
    /// for this experiment.
    pub fn make_ready(
        &self,
        lab: &mut Lab<'_>,
        target: &Path,
        is_fresh: bool,
    ) -> Result<PathBuf, LabError> {
        let (dir, state_dir) = match is_fresh {
            true => (target.join(TREE_DIR), target.join(NOTES_DIR)),
            false => (target.to_owned(), lab.state_dir.clone()),
        };
        let failed = |error| of_tree(&dir, error);
        let is_said = self.tree.as_ref().is_some_and(|tree| tree.amount.is_some());
        let default = match (is_said, is_fresh) {
            (true, _) => TREE_BYTES_DEFAULT,
            (false, true) => build::default_bytes_in_setup(&lab.root, target).map_err(failed)?,
            (false, false) => build::default_bytes(&lab.root, target).map_err(failed)?,
        };
        let Some(spec) = self.tree(is_fresh, Amount::Bytes(default)) else {
            if self.has_readers() {
                whole::check_in(lab, target)?;
            }
            return Ok(target.to_owned());
        };
        let mut builder = Builder {
            root: &lab.root,
            state_dir: &state_dir,
            run_id: &lab.run_id,
            threads: whole::threads(),
            time_ns: None,
            stop: &lab.stop,
            progress: &mut |_| (),
        };
        let built = match is_fresh {
            true => builder.build_in_setup(&dir, spec),
            false => builder.build(&dir, spec),
        };
        let built = built.map_err(failed)?;
        if !built.reused {
            let extent = built.tree.layout().extent();
            lab.note(format!(
                "Tree to read: {} files of {}, made in {}.",
                format_count(extent.files),
                format_size(extent.bytes),
                format_ns(built.took_ns)
            ));
        }
        Ok(dir)
    }
}

/// Goes through the phases once.
///
/// # Errors
/// [`LabError`] when nothing could be measured, and for a signal.
pub(crate) fn measure(
    lab: &mut Lab<'_>,
    load: &ServerLoad,
    dir: &Path,
    (label, seed): (&str, u64),
) -> Result<Measured, LabError> {
    let options = FsopOptions { spec: load.spec.clone(), target: dir.to_owned(), repeats: 1 };
    // What its processes draw belongs to the place in the experiment, not to what ran before.
    let seeds = std::mem::replace(&mut lab.seeds, Prng::new(seed, 0));
    let records = fsop::measure(lab, &options);
    lab.seeds = seeds;
    let mut records = records?;
    if lab.stop.is_set() || records.iter().any(|record| record.ending == Ending::Interrupted) {
        return Err(LabError::Interrupted);
    }
    let figures = trial::figures(&records);
    for record in &mut records {
        let phase = record.fsop.as_ref().map_or_else(String::new, |fsop| fsop.phase.text());
        record.label = format!("{label}, {phase}");
    }
    let Some(mut record) = records.pop() else { return Err(LabError::Interrupted) };
    label.clone_into(&mut record.label);
    Ok(Measured { record, parts: records, figures })
}

/// How long it took to mount the filesystem after a crash, and then once more, as figures of a trial.
pub(crate) fn recovery_figures(after_crash_ns: u64, clean_ns: u64) -> Vec<(String, f64)> {
    let name = Metric::Recovery.of_file_server().unwrap_or_default();
    let both = [(name, after_crash_ns), (trial::CLEAN_MOUNT, clean_ns)];
    both.map(|(name, ns)| (name.to_owned(), ns as f64)).into()
}

fn of_tree(path: &Path, error: TreeError) -> LabError {
    let class = match error.class() {
        TreeErrorClass::Usage => ErrorClass::Usage,
        TreeErrorClass::Refused => ErrorClass::Refused,
        TreeErrorClass::Missing => ErrorClass::Missing,
        TreeErrorClass::TargetIo => ErrorClass::TargetIo,
        TreeErrorClass::Interrupted => return LabError::Interrupted,
    };
    LabError::Cell { reason: format!("tree in {}: {error}", path.display()), class }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, pairs: &[(&str, &str)]) -> Result<Option<ServerLoad>, LabError> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let asked = PlanWorkload {
            label: "fs".into(),
            name: Some(name.into()),
            command: None,
            settings: pairs.iter().map(own).collect(),
            target: None,
        };
        load(&asked)
    }

    fn server(pairs: &[(&str, &str)]) -> ServerLoad {
        named("fsop", pairs).expect("valid").expect("a file server")
    }

    #[test]
    fn a_personality_is_a_load_without_a_tree() {
        let pairs = [("files", "500"), ("sizes", "4k"), ("window", "2s"), ("warmup", "1s")];
        let mail = named("mail", &pairs).expect("valid").expect("a personality");
        assert_eq!((mail.tree_bytes(true), mail.first_bytes()), (0, 500 * 4096));
        assert_eq!(mail.writing_ns(), 3_000_000_000);
        assert_eq!(mail.workload().name, "mail");
        assert!(mail.words().starts_with("mail, "), "{}", mail.words());
        assert!(mail.words().contains("on 500 files"), "{}", mail.words());
        let build = named("build-tree", &[("tree_files", "5")]).expect("valid").expect("one");
        assert_eq!(build.tree_bytes(true), 0, "they are keys of its own");
        assert_eq!(named("randread", &[]).expect("of another kind"), None);
        let error = named("mail", &[("fils", "5")]).expect_err("no key").to_string();
        assert!(error.contains("did you mean 'files'?"), "{error}");
    }

    #[test]
    fn a_file_says_what_it_is() {
        let dir = std::env::temp_dir().join(format!("fathom-lab-play-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("own.toml");
        let name = file.display().to_string();
        std::fs::write(&file, "name = 'own'\n[play]\nmix = 'stat:1'\nfiles = 9\n")
            .expect("written");
        let own = named(&name, &[("clients", "2")]).expect("valid").expect("one");
        assert_eq!((own.workload().name.as_str(), own.spec.phases[0].clients), ("own", 2));
        std::fs::write(&file, "name = 'own'\n[play]\nmix = 'stt:1'\n").expect("written");
        let error = named(&name, &[]).expect_err("no transaction").to_string();
        assert!(error.contains("workload 'fs'") && error.contains("own.toml"), "{error}");
        std::fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(named(&name, &[]).expect("said elsewhere"), None, "not there");
    }

    #[test]
    fn a_tree_is_built_where_it_is_needed() {
        let plain = server(&[("phases", "2r")]);
        assert_eq!((plain.tree_bytes(true), plain.tree_bytes(false)), (TREE_BYTES_DEFAULT, 0));
        let sized = server(&[("phases", "2r"), ("tree_size", "8M")]);
        assert_eq!((sized.tree_bytes(true), sized.tree_bytes(false)), (8 << 20, 8 << 20));
        let files = server(&[("tree_files", "1000"), ("tree_file_size", "4k")]);
        assert_eq!(files.tree_bytes(true), 4_096_000);
        let writers = server(&[("phases", "2w"), ("tree_size", "8M")]);
        assert_eq!((writers.tree_bytes(true), writers.tree_bytes(false)), (0, 0));
    }

    #[test]
    fn every_cell_has_the_same_tree() {
        let spec = |window: &str| {
            let load = server(&[("window", window), ("tree_files", "50")]);
            load.tree(true, Amount::Bytes(1)).expect("readers")
        };
        assert_eq!(spec("1s"), spec("2s"));
        assert_eq!(spec("1s").amount, Amount::Files(50));
    }

    #[test]
    fn time_in_which_writers_write() {
        let load = server(&[("phases", "2r,2r+1w,1w"), ("window", "2s"), ("warmup", "1s")]);
        assert_eq!(load.writing_ns(), 6_000_000_000);
        assert!(load.words().contains("2 readers; 2 readers, 1 writer; 1 writer"));
    }
}
