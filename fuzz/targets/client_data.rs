//! Client data: what is read from any bytes is what another parser of JSON reads, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use service_rules::passkeys::ClientData;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = ClientData::read(bytes) else { return };
    assert!(bytes.len() <= 2_048);
    let value: Value = serde_json::from_slice(bytes).expect("what was read is JSON");
    assert_eq!(value["origin"].as_str(), Some(read.origin.as_str()));
    let is_of_passkeys = matches!(value["type"].as_str(), Some("webauthn.create" | "webauthn.get"));
    assert_eq!(read.ceremony.is_some(), is_of_passkeys);
    // 32 bytes are 43 letters without padding: no other text means the same challenge.
    assert_eq!(value["challenge"].as_str().map(str::len), Some(43));
    let states_no_frame = matches!(value.get("crossOrigin"), None | Some(Value::Bool(false)));
    assert_eq!(read.is_cross_origin, !states_no_frame || value.get("topOrigin").is_some());
});
