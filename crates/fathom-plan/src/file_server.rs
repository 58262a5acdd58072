//! Workloads of plans that are file servers, `use = "fsop"`, or personalities, `use = "mail"`. Their settings are checked here; those of
//! the tree that readers read, which begin with `tree_`, by whoever builds it.

use crate::cells::is_file;
use fathom_model::fsop::{FsopPhase, FsopSpec};
use fathom_model::plan::{Metric, PlanWorkload};
use fathom_model::{fsop_keys, fsop_plan, play_keys};

/// True for a file server or a personality that is built in.
pub(crate) fn is_one(workload: &PlanWorkload) -> bool {
    is_server(workload) || is_personality(workload)
}

fn is_server(workload: &PlanWorkload) -> bool {
    workload.name.as_deref() == Some(fsop_plan::FSOP)
}

fn is_personality(workload: &PlanWorkload) -> bool {
    workload.name.as_deref().is_some_and(|name| play_keys::named(name).is_some())
}

/// Its phases; none when it is neither.
///
/// # Errors
/// `key=value: reason`.
pub(crate) fn spec(workload: &PlanWorkload) -> Result<Option<FsopSpec>, String> {
    fsop_plan::spec(workload.name.as_deref().unwrap_or_default(), &workload.settings, None)
}

/// The keys that it takes; none when it is neither.
pub(crate) fn keys_of(workload: &PlanWorkload) -> Vec<&'static str> {
    let keys = match (is_server(workload), is_personality(workload)) {
        (true, _) => fsop_keys::KEYS,
        (_, true) => play_keys::KEYS,
        _ => &[],
    };
    let other = is_personality(workload).then_some(play_keys::ENTRIES);
    keys.iter().map(|key| key.name).chain(other).collect()
}

/// Whether it takes such a key; none when it is neither, or a file that says for itself what it is.
pub(crate) fn has_key(workload: &PlanWorkload, key: &str) -> Option<bool> {
    if workload.name.as_deref().is_some_and(is_file) {
        let is_its = play_keys::KEYS.iter().any(|known| known.name == key);
        return is_its.then_some(true);
    }
    let is_of_tree = is_server(workload) && key.starts_with(fsop_plan::TREE_PREFIX);
    let has = is_of_tree || key == "target" || keys_of(workload).contains(&key);
    is_one(workload).then_some(has)
}

/// That a level of a factor is a value of the key; what settings are together is looked at in cells.
pub(crate) fn level(workload: &PlanWorkload, key: &str, value: &str) -> Result<(), String> {
    if !keys_of(workload).contains(&key) {
        return Ok(());
    }
    let one = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let alone = PlanWorkload { settings: [one(key, value)].into(), ..workload.clone() };
    let Err(reason) = spec(&alone) else { return Ok(()) };
    // What others of its settings cure is no fault of the value.
    let mut settings = workload.settings.clone();
    settings.insert(key.to_owned(), value.to_owned());
    let beside = PlanWorkload { settings, ..workload.clone() };
    let prefix = format!("{key}={value}: ");
    spec(&beside)
        .map(|_| ())
        .map_err(|_| reason.strip_prefix(&prefix).unwrap_or(&reason).to_owned())
}

/// Why no workload of the plan can have that figure; none when one has, or may have: a file says for itself what it is.
pub(crate) fn lacks(workloads: &[PlanWorkload], metric: Metric) -> Option<&'static str> {
    let may_be = |is: fn(&PlanWorkload) -> bool| {
        workloads.iter().any(|one| is(one) || one.name.as_deref().is_some_and(is_file))
    };
    if metric.of_file_server().is_none() {
        None
    } else if matches!(metric, Metric::Longest | Metric::Recovery) {
        (!may_be(is_one)).then_some(
            "is a figure of file servers and personalities, and no workload is one, such as use = \"fsop\"",
        )
    } else if metric.is_of_clients() {
        (!may_be(is_personality)).then_some(
            "is a figure of personalities, and no workload is one, such as use = \"mail\"",
        )
    } else {
        (!workloads.iter().any(is_server))
            .then_some("is a figure of file servers, and no workload has use = \"fsop\"")
    }
}

/// What decides where the plan does not say: what there are processes for.
pub(crate) fn objectives(workloads: &[PlanWorkload]) -> Vec<Metric> {
    let phases = workloads.iter().filter_map(|workload| spec(workload).ok().flatten());
    let phases: Vec<_> = phases.flat_map(|spec| spec.phases).collect();
    let mut all = Vec::new();
    if phases.iter().any(|phase| phase.clients > 0) {
        all.extend([Metric::Transactions, Metric::TransactionP99]);
    }
    if phases.iter().any(|phase| phase.clients == 0) {
        all.extend(of_servers(&phases));
    }
    all
}

fn of_servers(phases: &[FsopPhase]) -> Vec<Metric> {
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
        let phases = spec(&read.workloads[0]).expect("valid").expect("a file server").phases;
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

    /// A plan with that workload, and what follows it.
    fn of(name: &str, rest: &str) -> Result<fathom_model::plan::Plan, String> {
        let text = format!(
            "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"{name}\"\n{rest}\n[factors]\nnull = [\"a\", \"b\"]\n"
        );
        read(&text, "x.toml", &Unchecked).map_err(|error| error.to_string())
    }

    #[test]
    fn a_plan_takes_a_personality_with_its_settings() {
        let mail = of("mail", "files = 100\nsync = \"none\"").expect("valid");
        let metrics: Vec<Metric> = mail.objectives.iter().map(|one| one.metric).collect();
        assert_eq!(metrics, [Metric::Transactions, Metric::TransactionP99]);
        let build = of("build-tree", "tree_files = 5").expect("valid");
        let spec = spec(&build.workloads[0]).expect("valid").expect("a personality");
        assert_eq!(spec.play.expect("a personality").tree_files, 5);
        let error = of("mail", "fils = 3").expect_err("no key");
        assert!(error.contains("did you mean 'files'?") && error.contains("line 5"), "{error}");
        let bound = "[[objective]]\nmetric = \"transactions\"\n[[objective]]\nmetric = \"transaction_p99\"\nbound = \"5ms\"";
        assert_eq!(of("mail", bound).expect("valid").objectives[1].bound, Some(5_000_000.0));
    }

    #[test]
    fn what_a_workload_is_set_to_may_vary() {
        let vary = |name: &str, factor: &str| {
            let text = format!(
                "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"{name}\"\n[factors]\n{factor}\n"
            );
            read(&text, "x.toml", &Unchecked).map_err(|error| error.to_string())
        };
        let plan = vary("mail", "workload.files = [1, 2]").expect("valid");
        for (name, factor) in [
            ("mail", "workload.sync = [\"none\", \"file\", \"4\"]"),
            ("mail", "workload.mail.clients = [1, 8]"),
            ("fsop", "workload.sync = [\"none\", \"dir\"]"),
            ("fsop", "workload.tree_files = [100, 200]"),
        ] {
            let plan = vary(name, factor).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.factors.len(), 1, "{factor}");
        }
        let own = PlanWorkload { name: Some("own.toml".into()), ..plan.workloads[0].clone() };
        let has = ["clients", "depth"].map(|key| has_key(&own, key));
        assert_eq!(has, [Some(true), None], "a file may be of either kind");
        for (name, factor, part) in [
            ("mail", "workload.sync = [\"none\", \"7\"]", "one of none, file"),
            ("mail", "workload.client = [1, 2]", "did you mean 'clients'?"),
            ("mail", "workload.depth = [1, 2]", "workloads have no such key"),
            ("fsop", "workload.sync = [\"none\", \"reverse\"]", "one of none, file, data, dir"),
            ("randread", "workload.clients = [1, 2]", "workloads have no such key"),
        ] {
            let error = vary(name, factor).expect_err(part);
            assert!(error.contains(part), "{name}: {error}");
        }
    }

    #[test]
    fn figures_belong_to_what_has_them() {
        let objective = |metric: &str| format!("[[objective]]\nmetric = \"{metric}\"");
        let error = of("mail", &objective("read_files")).expect_err("no readers");
        assert!(error.contains("no workload has use = \"fsop\""), "{error}");
        for metric in ["close_p99", "reader_fairness", "read_bytes"] {
            let error = of("mail", &objective(metric)).expect_err("no readers");
            assert!(error.contains("no workload has use = \"fsop\""), "{error}");
            of("fsop", &objective(metric)).expect(metric);
        }
        for name in ["fsop", "mail"] {
            of(name, &objective("longest")).expect(name);
        }
        let error = of("randread", &objective("longest")).expect_err("no such operations");
        assert!(error.contains("file servers and personalities"), "{error}");
        of("mail", &objective("client_fairness")).expect("clients");
        let error = of("mail", &objective("recovery")).expect_err("somebody's filesystem");
        assert!(error.contains("no other one is crashed"), "{error}");
        let bound = |metric: &str, value: &str| {
            let plan = of("fsop", &format!("{}\nbound = {value}", objective(metric)));
            plan.map(|plan| plan.objectives[0].bound)
        };
        assert_eq!(bound("read_bytes", "\"10MB/s\"").expect("a rate"), Some(10_000_000.0));
        assert_eq!(bound("close_p99", "\"5ms\"").expect("a time"), Some(5_000_000.0));
        assert!(bound("writer_fairness", "\"5\"").expect_err("none").contains("takes no bound"));
        let error = of("fsop", &objective("transactions")).expect_err("no clients");
        assert!(error.contains("no workload is one, such as use = \"mail\""), "{error}");
    }
}
