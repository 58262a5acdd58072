//! Which devices the words of the command line mean.

use fathom_inspect::InspectError;
use fathom_model::stack::NodeKind;
use fathom_observe::sample::Choice;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::path::Path;

/// What is watched. With an application and no word, the devices of this directory.
pub fn choice(root: &SysRoot, words: &[String], has_application: bool) -> Result<Choice, String> {
    if words.is_empty() {
        let here = if has_application { tops(root, ".").unwrap_or_default() } else { Vec::new() };
        return Ok(if here.is_empty() { Choice::All } else { Choice::Named(here) });
    }
    let mut names: Vec<String> = Vec::new();
    for word in words {
        // As iostat takes them: sda is /dev/sda, unless there is something of this name here.
        let is_name = !word.contains('/') && !Path::new(word).exists();
        let found = match BlockDir::by_name(root, word).filter(|_| is_name) {
            Some(device) => vec![device.name().to_owned()],
            None if !Path::new(word).exists() => {
                return Err(format!(
                    "{word}: there is no such device or path; lsblk lists devices"
                ));
            }
            None => tops(root, word)?,
        };
        if found.is_empty() {
            return Err(format!(
                "{word}: there is no block device below it that could be watched{}",
                hidden(root, word)
            ));
        }
        names.extend(found.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    Ok(Choice::Named(names))
}

/// What an overlay lies on, where that is outside of a container.
fn hidden(root: &SysRoot, word: &str) -> String {
    let stack = fathom_inspect::resolve(root, Path::new(word)).ok();
    let nodes = stack.iter().flat_map(|stack| &stack.nodes);
    let unknown = nodes.filter(|node| node.kind == NodeKind::Unknown).map(|node| &node.name).next();
    unknown.map_or_else(String::new, |name| {
        format!(": what it is made of, {name}, cannot be seen from here; name the device that holds it (lsblk)")
    })
}

fn tops(root: &SysRoot, word: &str) -> Result<Vec<String>, String> {
    let stack = fathom_inspect::resolve(root, Path::new(word));
    let stack = stack.map_err(|error: InspectError| error.to_string())?;
    Ok(stack.top_block_devices().iter().map(|node| node.name.clone()).collect())
}
