//! Workloads of plans that are file servers: `use = "fsop"`. Their phases are checked here; the settings of the tree that their
//! readers read, which begin with `tree_`, by whoever builds it.

use fathom_model::fsop::FsopSpec;
use fathom_model::fsop_plan;
use fathom_model::plan::{Metric, PlanWorkload};

/// The name of the workload.
const NAME: &str = "fsop";

/// True for a file server.
pub(crate) fn is_one(workload: &PlanWorkload) -> bool {
    workload.name.as_deref() == Some(NAME)
}

/// Its phases.
///
/// # Errors
/// `key=value: reason`.
pub(crate) fn spec(workload: &PlanWorkload) -> Result<FsopSpec, String> {
    FsopSpec::with(&fsop_plan::divide(&workload.settings).0)
}

/// What decides where the plan does not say: what there are processes for.
pub(crate) fn objectives(workloads: &[PlanWorkload]) -> Vec<Metric> {
    let phases = workloads.iter().filter_map(|workload| spec(workload).ok());
    let phases: Vec<_> = phases.flat_map(|spec| spec.phases).collect();
    if phases.iter().all(|phase| phase.readers == 0) {
        return vec![Metric::WrittenFiles, Metric::MkdirP99];
    }
    vec![Metric::ReadFiles, Metric::OpenP99]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Unchecked, read};

    fn plan(rest: &str) -> Result<fathom_model::plan::Plan, String> {
        let text = format!(
            "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"fsop\"\n{rest}\n[factors]\nnull = [\"a\", \"b\"]\n"
        );
        read(&text, "x.toml", &Unchecked).map_err(|error| error.to_string())
    }

    fn metrics(rest: &str) -> Vec<Metric> {
        let objectives = plan(rest).expect("valid").objectives;
        objectives.into_iter().map(|objective| objective.metric).collect()
    }

    #[test]
    fn a_plan_takes_a_file_server_with_its_settings() {
        let read = plan("phases = \"2r,2r+2w\"\nwindow = \"1s\"\ntree_files = 100").expect("valid");
        let phases = spec(&read.workloads[0]).expect("valid").phases;
        assert_eq!(
            phases.iter().map(|p| (p.readers, p.writers)).collect::<Vec<_>>(),
            [(2, 0), (2, 2)]
        );
        assert_eq!(metrics("phases = \"2r\""), [Metric::ReadFiles, Metric::OpenP99]);
        assert_eq!(metrics("phases = \"2w\""), [Metric::WrittenFiles, Metric::MkdirP99]);
    }

    #[test]
    fn what_makes_no_sense_is_said_at_its_line() {
        let error = plan("phases = \"3x\"").expect_err("no phase");
        assert!(
            error.contains("write 3r for three readers") && error.contains("line 5"),
            "{error}"
        );
        let error = plan("windw = \"1s\"").expect_err("no key");
        assert!(error.contains("window"), "{error}");
    }

    #[test]
    fn figures_of_file_servers_are_for_file_servers() {
        let text = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"randread\"\n[factors]\nnull = [\"a\", \"b\"]\n\
                    [[objective]]\nmetric = \"readers_keep\"\n";
        let error = read(text, "x.toml", &Unchecked).expect_err("no file server").to_string();
        assert!(error.contains("no workload has use = \"fsop\""), "{error}");
        let rest = "phases = \"2r,2r+1w\"\n[[objective]]\nmetric = \"readers_keep\"";
        assert_eq!(metrics(rest), [Metric::ReadersKeep]);
        let error = plan(&format!("{rest}\nbound = \"5\"")).expect_err("no bound");
        assert!(error.contains("takes no bound"), "{error}");
    }
}
