//! Runs that follow a plan: the plan is stored with them, so that they can be taken up again after they were broken off.

use crate::{Store, StoreError, Writer};
use fathom_base::json;
use fathom_model::plan::{PLAN_VERSION, Plan};
use fathom_model::record::RunHead;
use rusqlite::OptionalExtension;

/// A run with its plan.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlan {
    /// The run.
    pub run_id: String,
    /// The plan that it was begun with.
    pub plan: Plan,
}

impl Store {
    /// Writes the head of a run together with its plan.
    ///
    /// # Errors
    /// Everything about writing.
    pub fn begin_experiment(
        &mut self,
        head: &RunHead,
        writer: &Writer,
        plan: &Plan,
    ) -> Result<(), StoreError> {
        self.begin_run(head, writer)?;
        let text = self.json(plan)?;
        self.write(|transaction| {
            let sql = "INSERT INTO plans (run_id, name, plan) VALUES (?1, ?2, ?3)";
            transaction.execute(sql, (&head.id, &plan.name, &text))
        })?;
        Ok(())
    }

    /// The plan of a run; none when it follows none.
    ///
    /// # Errors
    /// Everything about reading; [`StoreError::Corrupt`] for a plan that is not what was written, or a newer fathom's.
    pub fn plan(&self, run_id: &str) -> Result<Option<Plan>, StoreError> {
        if !self.has_plans()? {
            return Ok(None);
        }
        let sql = "SELECT plan FROM plans WHERE run_id = ?1";
        let text: Option<String> = self
            .connection
            .query_row(sql, [run_id], |row| row.get(0))
            .optional()
            .map_err(|e| StoreError::of(&self.path, &e))?;
        text.map(|text| self.read_plan(run_id, &text)).transpose()
    }

    /// A store of the first format that was opened for reading has no plans.
    pub(crate) fn has_plans(&self) -> Result<bool, StoreError> {
        let has_table = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'plans'";
        self.connection
            .query_row(has_table, (), |row| row.get(0))
            .map_err(|e| StoreError::of(&self.path, &e))
    }

    fn read_plan(&self, run_id: &str, text: &str) -> Result<Plan, StoreError> {
        let damaged = |detail: String| StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("the plan of run {run_id}: {detail}"),
        };
        let plan: Plan = json::from_str(text).map_err(|e| damaged(e.to_string()))?;
        if plan.version > PLAN_VERSION {
            return Err(damaged(format!("written by a newer fathom (version {})", plan.version)));
        }
        Ok(plan)
    }

    /// The newest run of the plan of that name, on that target where there is one, whatever became of it.
    ///
    /// # Errors
    /// Everything about reading.
    pub fn newest_of_plan(
        &self,
        name: &str,
        target: Option<&str>,
    ) -> Result<Option<StoredPlan>, StoreError> {
        let sql = "SELECT plans.run_id, plan FROM plans JOIN runs ON runs.id = plans.run_id
                   WHERE name = ?1 AND (?2 IS NULL OR json_extract(plan, '$.target') = ?2)
                   ORDER BY started_unix_ns DESC, runs.rowid DESC LIMIT 1";
        let found: Option<(String, String)> = self
            .connection
            .query_row(sql, (name, target), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|e| StoreError::of(&self.path, &e))?;
        found
            .map(|(run_id, text)| Ok(StoredPlan { plan: self.read_plan(&run_id, &text)?, run_id }))
            .transpose()
    }

    /// Another process goes on with a run: it is running again, and has no verdict yet.
    ///
    /// # Errors
    /// Everything about writing; [`StoreError::NotFound`] when there is no such run.
    pub fn take_up(&mut self, run_id: &str, writer: &Writer) -> Result<(), StoreError> {
        self.change_run(
            run_id,
            "UPDATE runs SET state = 'running', verdict = NULL, findings = '[]', finished_unix_ns = NULL,
                 writer_pid = ?2, writer_start_ticks = ?3, writer_boot_id = ?4
             WHERE id = ?1",
            (run_id, writer.pid, writer.start_ticks.cast_signed(), &writer.boot_id),
        )
    }
}
