//! Documents about the service, and who is calling it.

use serde_json::Value;

use super::{
    Access::{AnyToken, Public},
    operation::{Operation, get, operations},
};
use crate::{errors::ErrorCode::NotFound, openapi::Shape, whoami::Whoami};

operations! {
    /// Get the authorization server metadata (RFC 8414)
    SERVER_METADATA(Discovery, "serverMetadata"): () => Value = document("/.well-known/oauth-authorization-server");

    /// Get the resource metadata of the service (RFC 9728)
    RESOURCE_METADATA(Discovery, "resourceMetadata"): () => Value = document("/.well-known/oauth-protected-resource");

    /// Get the resource metadata of the API (RFC 9728)
    API_METADATA(Discovery, "apiMetadata"): () => Value = document("/.well-known/oauth-protected-resource/v1");

    /// Get the resource metadata of MCP (RFC 9728)
    MCP_METADATA(Discovery, "mcpMetadata"): () => Value = document("/.well-known/oauth-protected-resource/mcp");

    /// Get the public keys of access tokens (RFC 7517)
    JWKS(Discovery, "keys"): () => Value = document("/.well-known/jwks.json");

    /// Get the pages where users create and manage passkeys
    PASSKEY_ENDPOINTS(Discovery, "passkeyEndpoints"): () => Value =
        document("/.well-known/passkey-endpoints").fails(&[NotFound]);

    /// Get the API description
    OPENAPI(Discovery, "openapi"): () => Value = document("/openapi.json");

    /// Get the current user
    WHOAMI(Whoami, "whoami"): () => Whoami = get("/v1/whoami", AnyToken).query(&["workspaceId"]).returns(200);
}

const fn document(path: &'static str) -> Operation<(), Value> {
    get(path, Public).returns_shape(200, Shape::Standard)
}
