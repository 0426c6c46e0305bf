//! Prints the `OpenAPI` document: `cargo run -p service-api --example openapi > openapi.json`.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

fn main() {
    println!("{:#}", service_api::openapi::document("https://service.example"));
}
