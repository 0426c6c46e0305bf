//! Environment variables that Kubernetes sets for each Service of a namespace. For a Service whose name begins with
//! `serviced` they look like settings of ours.

use std::net::{IpAddr, SocketAddr};

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Whether both the name and the value are as Kubernetes sets them. A setting that is misspelled is not.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    if name.ends_with("_SERVICE_HOST") {
        return is_address(value);
    }
    if let Some((_, port_name)) = name.split_once("_SERVICE_PORT") {
        return (port_name.is_empty() || port_name.starts_with('_')) && is_port(value);
    }
    if name.ends_with("_PORT") && is_endpoint(value) {
        return true;
    }
    let Some((_, port)) = name.split_once("_PORT_") else { return false };
    match port.split('_').collect::<Vec<_>>()[..] {
        [number, protocol] => is_port(number) && is_protocol(protocol) && is_endpoint(value),
        [number, protocol, part] if is_port(number) && is_protocol(protocol) => match part {
            "PROTO" => PROTOCOLS.contains(&value),
            "PORT" => value == number,
            "ADDR" => is_address(value),
            _ => false,
        },
        _ => false,
    }
}

fn is_protocol(text: &str) -> bool {
    PROTOCOLS.iter().any(|protocol| protocol.to_ascii_uppercase() == text)
}

/// Whether the value is a protocol, an address and a port, as in `tcp://10.0.0.11:8080`.
fn is_endpoint(value: &str) -> bool {
    let endpoint = value.split_once("://").filter(|(protocol, _)| PROTOCOLS.contains(protocol));
    endpoint.is_some_and(|(_, address)| address.parse::<SocketAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_kubernetes_is_recognized_by_name_and_value_op_03() {
        for (name, value) in [
            ("SERVICED_PORT", "tcp://10.96.0.11:8080"),
            ("SERVICED_PORT", "udp://[fd00::11]:8080"),
            ("SERVICED_SERVICE_HOST", "10.96.0.11"),
            ("SERVICED_SERVICE_HOST", "fd00::11"),
            ("SERVICED_SERVICE_PORT", "8080"),
            ("SERVICED_SERVICE_PORT_HTTP_OPS", "9090"),
            ("SERVICED_PORT_8080_TCP", "tcp://10.96.0.11:8080"),
            ("SERVICED_PORT_8080_TCP_PROTO", "tcp"),
            ("SERVICED_PORT_8080_TCP_PORT", "8080"),
            ("SERVICED_PORT_8080_TCP_ADDR", "10.96.0.11"),
            ("SERVICED_MAIL_PORT", "tcp://10.96.0.12:25"),
            ("SERVICED_MAIL_PORT_25_SCTP", "sctp://10.96.0.12:25"),
        ] {
            assert!(is_service_link(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("SERVICED_PORT", "8080"),
            ("SERVICED_PORT", "tcp://serviced:8080"),
            ("SERVICED_PORT", "http://10.96.0.11:8080"),
            ("SERVICED_SERVICE_HOST", "serviced.example"),
            ("SERVICED_SERVICE_PORT", "http"),
            ("SERVICED_SERVICE_PORTS", "8080"),
            ("SERVICED_PORT_8080_TCP_PORT", "8081"),
            ("SERVICED_PORT_8080_HTTP", "tcp://10.96.0.11:8080"),
            ("SERVICED_PORT_HTTP_TCP", "tcp://10.96.0.11:8080"),
            ("SERVICED_PORT_8080_TCP_NAME", "tcp"),
            ("SERVICED_PORT_8080_TCP_ADDR_X", "10.96.0.11"),
            ("SERVICED_MAIL_PORT", "587"),
            ("SERVICED_HTTP_LISTEN", "127.0.0.1:8080"),
            ("SERVICED_", ""),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
