#!/bin/sh
# A compiler that counts which branches are taken, in our packages and in the parsers they read with; what is built on those
# alone tells the fuzzer nothing, and takes minutes to build so. Not serde_json: procedural macros are built with it, and the compiler
# could not load them.
for argument; do
    case $previous in
    --crate-name)
        case $argument in
        berthctl | berthd | berth_cri | berth_policy | berth_proto | berth_shim | berth_manager | serde_saphyr | redb | base64 | oci_spec)
            exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                -Cllvm-args=-sanitizer-coverage-trace-compares
            ;;
        esac
        ;;
    esac
    previous=$argument
done
exec "$@"
