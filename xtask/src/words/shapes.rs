//! Figures that need the syntax tree: types of one name, nested results, errors that are no `Error`, tuple parameters.
//!
//! The bodies of macros are not seen: they are no syntax yet.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use syn::{
    Attribute, FnArg, GenericArgument, Ident, ItemEnum, ItemImpl, ItemMod, ItemStruct, ItemType, Path, PathArguments,
    PathSegment, Signature, Token, Type, punctuated::Punctuated, spanned::Spanned as _, visit, visit::Visit,
};

use super::{Figure, Hit};
use crate::files::SourceFile;

/// The layers of service-server; what is in none of them is its side modules.
const SERVER_LAYERS: [&str; 3] = ["http", "flows", "store"];

pub(super) fn measure(files: &[SourceFile]) -> Result<Vec<Figure>> {
    let mut shapes = Shapes::default();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        let tree = syn::parse_file(&file.text).with_context(|| format!("{} cannot be parsed", file.path))?;
        shapes.read(&file.path, &tree);
    }
    Ok(vec![
        Figure {
            name: "shared-type-names",
            what: "names that two or more files of one layer give to a type",
            hits: shapes.shared_names(),
        },
        Figure {
            name: "refusals-no-error",
            what: "enums named …Refusal…, or the E of a Result, that do not implement Error",
            hits: shapes.refusals_that_are_no_errors(),
        },
        Figure { name: "nested-results", what: "Result<Result<…>>", hits: shapes.nested_results },
        Figure {
            name: "tuple-parameters",
            what: "parameters of functions whose type is a tuple",
            hits: shapes.tuple_parameters,
        },
    ])
}

/// Where a type is declared.
struct Declaration {
    crate_name: String,
    layer: String,
    name: String,
    path: String,
    line: usize,
    is_enum: bool,
    derives_error: bool,
}

/// What the files read so far have in common.
#[derive(Default)]
struct Shapes {
    path: String,
    /// The crate and the layer of the file that is read, if it is below a `src` folder.
    place: Option<(String, String)>,
    /// Inside `#[cfg(test)]`, or inside a function: how deep.
    hidden: usize,
    declarations: Vec<Declaration>,
    /// Names that stand in the place of E in a `Result`, by crate.
    error_positions: BTreeSet<(String, String)>,
    /// Names for which a crate has `impl Error for …`.
    error_impls: BTreeSet<(String, String)>,
    nested_results: Vec<Hit>,
    tuple_parameters: Vec<Hit>,
}

impl Shapes {
    fn read(&mut self, path: &str, tree: &syn::File) {
        path.clone_into(&mut self.path);
        self.place = place(path);
        self.visit_file(tree);
    }

    fn hit(&self, span: proc_macro2::Span, text: String) -> Hit {
        Hit { path: self.path.clone(), line: span.start().line, text }
    }

    fn declare(&mut self, name: &Ident, attributes: &[Attribute], is_enum: bool) {
        if self.hidden > 0 || is_for_tests(attributes) {
            return;
        }
        if let Some((crate_name, layer)) = self.place.clone() {
            self.declarations.push(Declaration {
                crate_name,
                layer,
                name: name.to_string(),
                path: self.path.clone(),
                line: name.span().start().line,
                is_enum,
                derives_error: derives(attributes).iter().any(|name| name == "Error"),
            });
        }
    }

    /// One hit for each name, with the files behind it.
    fn shared_names(&self) -> Vec<Hit> {
        let mut by_name = BTreeMap::<(&str, &str), Vec<&Declaration>>::new();
        for one in &self.declarations {
            by_name.entry((&one.layer, &one.name)).or_default().push(one);
        }
        let in_two_files =
            |found: &Vec<&Declaration>| found.iter().map(|one| &one.path).collect::<BTreeSet<_>>().len() > 1;
        let shared = by_name.into_iter().filter(|(_, found)| in_two_files(found));
        shared
            .map(|((layer, name), found)| {
                let others: Vec<_> = found[1..].iter().map(|one| format!("{}:{}", one.path, one.line)).collect();
                let text = format!("{name} ({layer}), also {}", others.join(", "));
                Hit { path: found[0].path.clone(), line: found[0].line, text }
            })
            .collect()
    }

    /// The rule: an enum below `src` whose name contains `Refusal`, or whose name stands somewhere in its crate in the
    /// place of E in `Result<T, E>`, or as an argument of that E; unless it derives `Error`, or its crate has an
    /// `impl Error for` its name.
    fn refusals_that_are_no_errors(&self) -> Vec<Hit> {
        let counts = |one: &&Declaration| {
            let key = (one.crate_name.clone(), one.name.clone());
            let refuses = one.name.contains("Refusal") || self.error_positions.contains(&key);
            one.is_enum && refuses && !one.derives_error && !self.error_impls.contains(&key)
        };
        let hit = |one: &Declaration| Hit { path: one.path.clone(), line: one.line, text: one.name.clone() };
        self.declarations.iter().filter(counts).map(hit).collect()
    }

    fn note_error(&mut self, error: &Type) {
        if let (Some((crate_name, _)), Type::Path(error)) = (self.place.clone(), error)
            && let Some(segment) = error.path.segments.last()
        {
            self.error_positions.insert((crate_name, segment.ident.to_string()));
            for argument in type_arguments(segment) {
                self.note_error(argument);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let hides = usize::from(is_for_tests(&item.attrs));
        self.hidden += hides;
        visit::visit_item_mod(self, item);
        self.hidden -= hides;
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.hidden += 1;
        visit::visit_block(self, block);
        self.hidden -= 1;
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.declare(&item.ident, &item.attrs, false);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.declare(&item.ident, &item.attrs, true);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.declare(&item.ident, &item.attrs, false);
        visit::visit_item_type(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (Some((of, _)), Type::Path(to), Some((crate_name, _))) = (&item.trait_, &*item.self_ty, &self.place)
            && let (Some("Error"), Some(name)) = (last_name(of).as_deref(), last_name(&to.path))
        {
            self.error_impls.insert((crate_name.clone(), name));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        if segment.ident == "Result" {
            let arguments: Vec<_> = type_arguments(segment).collect();
            if let Some(Type::Path(inner)) = arguments.first()
                && last_name(&inner.path).as_deref() == Some("Result")
            {
                self.nested_results.push(self.hit(segment.ident.span(), "Result<Result<…>>".to_owned()));
            }
            if let Some(error) = arguments.get(1) {
                self.note_error(error);
            }
        }
        visit::visit_path_segment(self, segment);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        for input in &signature.inputs {
            if let FnArg::Typed(parameter) = input
                && is_tuple(&parameter.ty)
            {
                let text = format!("fn {}", signature.ident);
                self.tuple_parameters.push(self.hit(parameter.ty.span(), text));
            }
        }
        visit::visit_signature(self, signature);
    }
}

/// The crate and the layer of a file below a `src` folder.
fn place(path: &str) -> Option<(String, String)> {
    let (crate_name, below) = path.strip_prefix("crates/").unwrap_or(path).split_once("/src/")?;
    let layer = match below.split_once('/') {
        Some((folder, _)) if crate_name == "service-server" && SERVER_LAYERS.contains(&folder) => folder,
        _ if crate_name == "service-server" => "side modules",
        _ => return Some((crate_name.to_owned(), crate_name.to_owned())),
    };
    Some((crate_name.to_owned(), format!("{crate_name}, {layer}")))
}

fn type_arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.args.iter()),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(one) => Some(one),
        _ => None,
    })
}

fn last_name(path: &Path) -> Option<String> {
    path.segments.last().map(|segment| segment.ident.to_string())
}

fn is_tuple(one: &Type) -> bool {
    match one {
        Type::Reference(reference) => is_tuple(&reference.elem),
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        _ => false,
    }
}

/// The last names of what an item derives.
pub(super) fn derives(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let paths =
        lists.filter_map(|list| list.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated).ok()).flatten();
    paths.filter_map(|path| last_name(&path)).collect()
}

/// Whether an item is there for tests only.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::Shapes;

    fn read(files: &[(&str, &str)]) -> Shapes {
        let mut shapes = Shapes::default();
        for (path, text) in files {
            shapes.read(path, &syn::parse_file(text).unwrap());
        }
        shapes
    }

    #[test]
    fn a_name_is_shared_within_a_layer_only() {
        let shapes = read(&[
            ("crates/service-server/src/http/a.rs", "struct Row; #[cfg(test)] mod tests { struct Kit; }"),
            ("crates/service-server/src/http/v1/b.rs", "enum Row {} struct Kit;"),
            ("crates/service-server/src/store/c.rs", "struct Row; fn f() { struct Kit; }"),
        ]);
        let found: Vec<_> = shapes.shared_names().into_iter().map(|hit| hit.text).collect();
        assert_eq!(found, ["Row (service-server, http), also crates/service-server/src/http/v1/b.rs:1"]);
    }

    #[test]
    fn a_refusal_is_an_error_by_derive_or_by_impl() {
        let shapes = read(&[(
            "crates/service-rules/src/a.rs",
            "enum Refusal {} enum Late {} enum Told {} enum Fine {} enum Free {}
             #[derive(thiserror::Error)] enum PageRefusal {}
             impl std::error::Error for Fine {}
             fn a() -> Result<(), Failure<Late>> {} fn b() -> Result<Free, Told> {} fn c() -> Result<(), Fine> {}",
        )]);
        let found: Vec<_> = shapes.refusals_that_are_no_errors().into_iter().map(|hit| hit.text).collect();
        assert_eq!(found, ["Refusal", "Late", "Told"]);
    }

    #[test]
    fn nested_results_and_tuples_are_found_wherever_they_are_written() {
        let shapes = read(&[(
            "crates/service-cli/tests/it/a.rs",
            "fn a() -> anyhow::Result<Result<(), E>> { let b: Result<std::io::Result<()>, E>; }
             trait T { fn c(&self, pair: &(u8, u8), unit: (), list: &[(u8, u8)]); }",
        )]);
        assert_eq!((shapes.nested_results.len(), shapes.tuple_parameters.len()), (2, 1));
        assert_eq!(shapes.tuple_parameters[0].text, "fn c");
    }
}
