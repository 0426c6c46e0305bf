//! Which layer of the server may use which: paths in the source, compared with one table.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};
use syn::{
    UseTree,
    visit::{self, Visit},
};

use crate::docs::tidy::sources;

/// A layer, by its module at the top of the crate, and what nothing in it may use.
struct Layer {
    module: &'static str,
    /// Modules at the top of the crate, or one level below.
    modules: &'static [&'static str],
    crates: &'static [&'static str],
    methods: &'static [&'static str],
}

const LAYERS: [Layer; 3] = [
    Layer { module: "http", modules: &["store", "crypto::root_keys"], crates: &["tokio_postgres"], methods: &[] },
    Layer { module: "flows", modules: &["http"], crates: &["axum", "tokio_postgres"], methods: &[] },
    Layer {
        module: "store",
        modules: &["http", "flows", "app"],
        crates: &["axum"],
        // Transactions belong to flows.
        methods: &["begin", "commit"],
    },
];

#[test]
fn a_layer_uses_only_the_layers_below_it() -> Result<()> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for layer in &LAYERS {
        for module in layer.modules {
            let file = module.replace("::", "/");
            let exists = src.join(format!("{file}.rs")).exists() || src.join(file).exists();
            assert!(exists, "the table forbids {} to use {module}, which does not exist", layer.module);
        }
        for (path, text) in sources(&format!("service-server/src/{}", layer.module)) {
            let inside = path.split_once("service-server/src/").context("not a source of the server")?.1;
            let wrong = layer.violations(inside, &text).with_context(|| path.clone())?;
            let paragraph = "see ARCHITECTURE.md, A layer uses only the layers below it";
            assert!(wrong.is_empty(), "{inside} uses {wrong:?}: {paragraph}");
        }
    }
    Ok(())
}

impl Layer {
    /// What a file of this layer, at this path below `src`, uses although it must not.
    fn violations(&self, path: &str, source: &str) -> Result<Vec<String>> {
        let used = Used::read(path, source)?;
        let modules = self.modules.iter().map(|module| format!("crate::{module}"));
        // A glob or another name for the crate would hide what is used.
        let paths = modules.chain(["crate::*".to_owned()]).chain(self.crates.iter().map(|&name| name.to_owned()));
        let methods = self.methods.iter().map(|method| format!(".{method}()"));
        Ok(paths
            .filter(|name| used.paths.contains(name))
            .chain(methods.filter(|name| used.methods.contains(name)))
            .collect())
    }
}

/// What a source file uses.
#[derive(Default)]
struct Used {
    /// The module that is being read, from the top of the crate.
    module: Vec<String>,
    /// `crate::` with one and with two levels of modules, or the first segment of any other path.
    paths: BTreeSet<String>,
    methods: BTreeSet<String>,
}

impl Used {
    fn read(path: &str, source: &str) -> Result<Self> {
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').map(str::to_owned).collect();
        let mut used = Self { module, ..Self::default() };
        used.visit_file(&syn::parse_file(source)?);
        Ok(used)
    }

    /// Notes a path, whose first segments may be `crate`, `self` or `super`.
    fn note(&mut self, segments: &[String]) {
        let ups = segments.iter().take_while(|segment| *segment == "super").count();
        let first = segments.first().map(String::as_str);
        let from_top: Vec<String> = match first {
            Some("crate") => segments[1..].to_vec(),
            Some("self") => [&self.module[..], &segments[1..]].concat(),
            Some("super") => [&self.module[..self.module.len().saturating_sub(ups)], &segments[ups..]].concat(),
            Some(name) => {
                self.paths.insert(name.to_owned());
                // The module may have been imported: `crypto::root_keys` after `use crate::crypto`.
                self.paths.extend(segments.get(1).map(|second| format!("crate::{name}::{second}")));
                return;
            }
            None => return,
        };
        self.paths.insert(format!("crate::{}", from_top.first().map_or("*", String::as_str)));
        if let [first, second, ..] = from_top.as_slice() {
            self.paths.insert(format!("crate::{first}::{second}"));
        }
    }

    fn note_use(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.note_use(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" && !before.is_empty() => self.note(before),
            UseTree::Name(name) => self.note(&with(&name.ident)),
            UseTree::Rename(name) if name.ident == "self" && !before.is_empty() => self.note(before),
            UseTree::Rename(name) => self.note(&with(&name.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_use(before, tree)),
            UseTree::Glob(_) => self.note(before),
        }
    }
}

impl<'ast> Visit<'ast> for Used {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_use(&[], &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.note(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.methods.insert(format!(".{}()", call.method));
        visit::visit_expr_method_call(self, call);
    }

    /// What a macro is given is not parsed: whatever looks like a path in it is one.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let text = called.tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let segments: Vec<_> = word.split("::").map(str::to_owned).collect();
            if segments.len() > 1 && !segments[0].is_empty() {
                self.note(&segments);
            }
        }
        visit::visit_macro(self, called);
    }
}

#[test]
fn every_way_to_use_a_forbidden_module_is_seen() -> Result<()> {
    let [http, _, store] = &LAYERS;
    for source in [
        "use crate::{app::App, flows::{self}, store::{grants}};",
        "use crate::{app::App, store};",
        "use crate::{app::App, store as rows};",
        "use crate::store::{self, grants};",
        "use super::super::super::store;",
        "use crate::*;",
        "use crate as whole;",
        "use {crate::app, crate::{store::*}};",
        "fn f() { crate::store::grants::find() }",
        "fn f() { super::super::super::store::grants::find() }",
        "fn f(flow: Vec<crate::store::grants::Grant>) {}",
        "impl From<crate::store::Gone> for X {}",
        "fn f() { tracing::info!(found = crate::store::grants::count(), \"Found\") }",
        "mod tests { use super::super::super::super::store; }",
        "fn f() { use crate::store; }",
    ] {
        let found = http.violations("http/pages/sign_in.rs", source)?;
        assert_eq!(found.len(), 1, "{source}: {found:?}");
        assert!(found[0] == "crate::store" || found[0] == "crate::*", "{source}: {found:?}");
    }
    assert_eq!(http.violations("http/mod.rs", "use super::store;")?, ["crate::store"]);
    for source in [
        "use crate::crypto::{random, root_keys::RootKeys};",
        "use crate::crypto;\nfn f(keys: crypto::root_keys::RootKeys) {}",
    ] {
        assert_eq!(http.violations("http/edge.rs", source)?, ["crate::crypto::root_keys"], "{source}");
    }
    assert_eq!(http.violations("http/path.rs", "fn f() -> tokio_postgres::NoTls {}")?, ["tokio_postgres"]);
    assert_eq!(store.violations("store/grants.rs", "async fn f(db: X) { db.commit().await }")?, [".commit()"]);
    for allowed in [
        "use crate::{app::App, flows::{self, store_front}};",
        "use super::{error::ApiError, pages::store};",
        "fn f(store: u8) -> u8 { store }",
        "/// Not `crate::store`.\nfn f() { let text = \"the store\"; }",
    ] {
        assert_eq!(http.violations("http/pages/sign_in.rs", allowed)?, Vec::<String>::new(), "{allowed}");
    }
    Ok(())
}
