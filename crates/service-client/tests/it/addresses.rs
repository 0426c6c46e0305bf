//! Which addresses tokens are sent to.

use service_client::{Client, Error};

#[test]
fn tokens_go_out_in_plain_text_to_no_other_machine_rv_44() {
    for good in ["https://service.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost:1"] {
        assert!(Client::new(good).is_ok(), "{good}");
    }
    for bad in [
        "http://service.example",
        "http://127.0.0.1.service.example",
        "http://localhost.service.example",
        "http://10.0.0.1",
        "ftp://127.0.0.1",
        "service.example",
    ] {
        assert!(matches!(Client::new(bad), Err(Error::PlainText)), "{bad}");
    }
}
