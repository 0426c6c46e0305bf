//! Contents: the same operations for each kind, and searching packs.

use super::{
    Access,
    operation::{Header, Operation, OperationRow, delete, get, operations, patch, post},
};
use crate::{
    JsonObject,
    contents::{Content, DeletedContent, Kind},
    errors::ErrorCode::{self, *},
    openapi::{Group, Shape},
    page::Page,
    scope::{Action, Resource, Scope},
    search::{Found, SearchPacks},
};

const SPACE: &[&str] = &["workspaceId"];
const PAGE_OF_SPACE: &[&str] = &["workspaceId", "limit", "cursor"];

operations! {
    /// Search packs
    SEARCH_PACKS(Content, "searchPacks"): SearchPacks => Page<Found> =
        post("/v1/packs/search", Access::Bearer(Scope::of(Action::Read, Resource::Packs)))
            .query(SPACE)
            .takes()
            .returns_shape(200, Shape::Found)
            .fails(&[ValidationFailed]);
}

/// The operations of one kind of content.
#[derive(Debug)]
pub struct ContentOperations {
    pub list: Operation<(), Page<Content>>,
    pub create: Operation<JsonObject, Content>,
    pub read: Operation<(), Content>,
    pub update: Operation<JsonObject, Content>,
    pub delete: Operation<(), ()>,
    pub list_deleted: Operation<(), Page<DeletedContent>>,
    pub restore: Operation<(), Content>,
}

/// What the texts of a kind's operations are made of.
pub(crate) struct ContentTexts {
    /// `/v1/projects`
    pub(crate) collection: &'static str,
    /// `/v1/projects/{projectId}`
    pub(crate) item: &'static str,
    /// `/v1/projects/deleted`
    pub(crate) deleted: &'static str,
    /// `/v1/projects/{projectId}/restore`
    pub(crate) restore: &'static str,
    /// The ids of the operations, in the order of [`ContentOperations`].
    pub(crate) ids: [&'static str; ContentOperations::COUNT],
    /// The summaries of the operations, in the order of [`ContentOperations`].
    pub(crate) summaries: [&'static str; ContentOperations::COUNT],
}

/// The [`ContentTexts`] of a kind, from its name (`Project`), singular (`project`) and plural (`projects`).
macro_rules! content_texts {
    ($name:literal, $one:literal, $many:literal) => {
        $crate::endpoints::ContentTexts {
            collection: concat!("/v1/", $many),
            item: concat!("/v1/", $many, "/{", $one, "Id}"),
            deleted: concat!("/v1/", $many, "/deleted"),
            restore: concat!("/v1/", $many, "/{", $one, "Id}/restore"),
            ids: [
                concat!("list", $name, "s"),
                concat!("create", $name),
                concat!("read", $name),
                concat!("update", $name),
                concat!("delete", $name),
                concat!("listDeleted", $name, "s"),
                concat!("restore", $name),
            ],
            summaries: [
                concat!("List ", $many, " (oldest first)"),
                concat!("Create a ", $one),
                concat!("Get a ", $one),
                concat!("Update a ", $one, " (partial)"),
                concat!("Delete a ", $one, " (idempotent)"),
                concat!("List deleted ", $many),
                concat!("Restore a deleted ", $one, " (idempotent)"),
            ],
        }
    };
}
pub(crate) use content_texts;

const REFUSED: &[ErrorCode] = &[ValidationFailed, CredentialInContent, Conflict];
const UPDATE_REFUSED: &[ErrorCode] = &[ValidationFailed, CredentialInContent, PreconditionFailed, Conflict];

impl ContentOperations {
    pub(crate) const COUNT: usize = 7;

    pub(crate) const fn new(kind: Kind, texts: &ContentTexts) -> Self {
        let (reads, writes) = (Scope::of(Action::Read, kind.resource()), Scope::of(Action::Write, kind.resource()));
        let (read, write) = (Access::Bearer(reads), Access::Bearer(writes));
        let [list_id, create_id, read_id, update_id, delete_id, list_deleted_id, restore_id] = texts.ids;
        let [list, create, read_one, update, delete_one, list_deleted, restore] = texts.summaries;
        Self {
            list: get(texts.collection, read).query(PAGE_OF_SPACE).returns_shape(200, Shape::Contents(kind)).described(
                Group::Content,
                list_id,
                list,
            ),
            create: post(texts.collection, write)
                .query(SPACE)
                .takes_shape(Shape::NewContent(kind))
                .returns_shape(201, Shape::Content(kind))
                .located()
                .fails(REFUSED)
                .headers(&[Header::IdempotencyKey])
                .described(Group::Content, create_id, create),
            read: get(texts.item, read).query(SPACE).returns_shape(200, Shape::Content(kind)).described(
                Group::Content,
                read_id,
                read_one,
            ),
            update: patch(texts.item, write)
                .query(SPACE)
                .takes_shape(Shape::ContentChange(kind))
                .returns_shape(200, Shape::Content(kind))
                .fails(UPDATE_REFUSED)
                .headers(&[Header::IfMatch])
                .described(Group::Content, update_id, update),
            delete: delete(texts.item, write)
                .query(SPACE)
                .fails(&[PreconditionFailed])
                .headers(&[Header::IfMatch])
                .described(Group::Content, delete_id, delete_one),
            list_deleted: get(texts.deleted, Access::Owner(reads))
                .query(PAGE_OF_SPACE)
                .returns_shape(200, Shape::DeletedContents(kind))
                .described(Group::Content, list_deleted_id, list_deleted),
            restore: post(texts.restore, Access::Owner(writes))
                .query(SPACE)
                .returns_shape(200, Shape::Content(kind))
                .fails(&[Conflict])
                .described(Group::Content, restore_id, restore),
        }
    }

    pub(crate) const fn rows(&'static self) -> [&'static OperationRow; Self::COUNT] {
        [
            &self.list.row,
            &self.create.row,
            &self.read.row,
            &self.update.row,
            &self.delete.row,
            &self.list_deleted.row,
            &self.restore.row,
        ]
    }
}
