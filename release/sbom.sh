#!/usr/bin/env bash
# Prints which crates the programs are built of, as SPDX 2.3: what Cargo.lock says, with licences, and without what only tests need.
#
#   release/sbom.sh [FEATURES]      of programs with these features: berthd/otlp
set -euo pipefail
cd "$(dirname "$0")/.."

cargo metadata --locked --offline --format-version 1 ${1:+--features "$1"} --filter-platform "$(uname -m)-unknown-linux-gnu" | jq '
    def spdx: "SPDXRef-" + (.name + "-" + .version | gsub("[^A-Za-z0-9.-]"; "-"));
    (.resolve.nodes | map({key: .id, value: [.deps[] | select(any(.dep_kinds[]; .kind != "dev")) | .pkg]}) | from_entries) as $needs
    | (.packages | map({key: .id, value: .}) | from_entries) as $known
    # Of the programs that are published, whatever they need, and that needs.
    | [.packages[] | select(.source == null and any(.targets[]; .kind == ["bin"])
        and (.name | IN("berthctl", "berthd", "berth-shim-program", "berth-shim", "berth-manager", "berth-workloads", "kubectl-berth")))] as $programs
    | def closure(seen): (seen + [seen[] as $one | $needs[$one][]] | unique) as $more | if $more == seen then seen else closure($more) end;
    ([$programs[].id] | unique | closure(.)) as $all
    | {
        spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
        name: "berth-\($programs[0].version)", documentNamespace: "https://berth.dev/spdx/berth-\($programs[0].version)",
        creationInfo: {created: "1970-01-01T00:00:00Z", creators: ["Tool: berth-release"]},
        packages: [$all[] as $one | $known[$one] | {
            SPDXID: spdx, name, versionInfo: .version, downloadLocation: (if .source == null then "NOASSERTION" else
                "https://crates.io/api/v1/crates/\(.name)/\(.version)/download" end),
            filesAnalyzed: false, licenseConcluded: "NOASSERTION", licenseDeclared: (.license // "NOASSERTION" | gsub("/"; " OR ")),
            copyrightText: "NOASSERTION",
            externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: "pkg:cargo/\(.name)@\(.version)"}]
        }],
        relationships: ([$programs[] | {spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: spdx}]
            + [$all[] as $one | $needs[$one][] as $other | {spdxElementId: ($known[$one] | spdx), relationshipType: "DEPENDS_ON",
                relatedSpdxElement: ($known[$other] | spdx)}])
    }'
