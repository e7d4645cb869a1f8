//! Objects that were changed, printed as `-o` asks for them.

use anyhow::ensure;
use serde_json::Value;

use crate::cli::{DryRun, Output};

/// Text of an object. Like kubectl's it is without `managedFields`.
pub(crate) fn text(object: &Value, name: &str, output: Output) -> anyhow::Result<String> {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(match output {
        Output::Json => serde_json::to_string_pretty(&object)? + "\n",
        Output::Yaml => serde_saphyr::to_string(&object)?,
        Output::Name => format!("{name}\n"),
    })
}

/// Refuses to print an object that nobody has made yet.
pub(crate) fn check(output: Option<Output>, dry_run: DryRun) -> anyhow::Result<()> {
    let is_whole = matches!(output, Some(Output::Json | Output::Yaml));
    ensure!(
        !is_whole || dry_run != DryRun::Client,
        "-o with --dry-run=client: what the object would be is for the API server to say: give --dry-run=server, or \
         -o name"
    );
    Ok(())
}

/// Refuses to ask the API server about an object that it is not to see.
pub(crate) fn check_local(dry_run: DryRun) -> anyhow::Result<()> {
    ensure!(
        dry_run != DryRun::Server,
        "cannot specify --local and --dry-run=server - did you mean --dry-run=client?"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_printed_as_kubectl_prints_them() {
        let object = json!({ "kind": "CloneSet", "metadata": { "managedFields": [1], "name": "a" } });
        let print = |output| text(&object, "cloneset.apps.kruise.io/a", output).unwrap();
        assert_eq!(print(Output::Name), "cloneset.apps.kruise.io/a\n");
        let json: Value = serde_json::from_str(&print(Output::Json)).unwrap();
        assert_eq!(json, json!({ "kind": "CloneSet", "metadata": { "name": "a" } }));
        let yaml: Value = serde_saphyr::from_str(&print(Output::Yaml)).unwrap();
        assert_eq!(yaml, json);
    }

    #[test]
    fn what_nobody_has_made_is_not_printed() {
        for (output, dry_run, is_refused) in [
            (Some(Output::Json), DryRun::Client, true),
            (Some(Output::Yaml), DryRun::Client, true),
            (Some(Output::Name), DryRun::Client, false),
            (None, DryRun::Client, false),
            (Some(Output::Json), DryRun::Server, false),
            (Some(Output::Json), DryRun::None, false),
        ] {
            assert_eq!(check(output, dry_run).is_err(), is_refused, "{output:?} {dry_run:?}");
        }
        let of_files = [DryRun::None, DryRun::Client, DryRun::Server].map(|one| check_local(one).is_ok());
        assert_eq!(of_files, [true, true, false]);
    }
}
