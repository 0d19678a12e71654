//! Places of a source that can be mutated.

use std::collections::BTreeMap;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// How the text of a place changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `left op right` gets another operator; where the operator stands.
    Operator { at: usize, end: usize, new: &'static str },
    /// A unary operator of one byte goes.
    Unary,
    /// A body returns this at once.
    Body(&'static str),
    /// A statement is left out.
    Statement,
    /// A match guard always holds, or never.
    Guard(&'static str),
    /// A mistake made by hand: the text becomes this, in which `MISTAKE` asks whether it is made.
    Text(String),
}

/// One mutant.
#[derive(Clone, Debug)]
pub struct Site {
    /// In the file, from the root of the tree.
    pub file: String,
    pub line: usize,
    pub function: String,
    /// Bytes of the place.
    pub start: usize,
    pub end: usize,
    pub change: Change,
    /// In words.
    pub what: String,
}

/// All sites of a source.
pub fn find(file: &str, text: &str) -> anyhow::Result<Vec<Site>> {
    let parsed = syn::parse_file(text)?;
    let mut finder = Finder { file, text, function: Vec::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    // The second of a kind in a function has another name.
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for site in &mut finder.found {
        let count = seen.entry((site.function.clone(), site.what.clone())).or_default();
        *count += 1;
        if *count > 1 {
            site.what += &format!(" ({count})");
        }
    }
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    function: Vec<String>,
    found: Vec<Site>,
}

/// Not compiled into what the tests run.
fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = if attribute.meta.path().is_ident("cfg") { quoted(attribute) } else { String::new() };
        attribute.path().is_ident("test")
            || text.contains("test") && !text.contains("not(test)")
            || text.contains("loom") && !text.contains("not(loom)")
            || text.contains("interleave") && !text.contains("not(interleave)")
            || text.contains("not(target_has_atomic")
    })
}

fn quoted(attribute: &syn::Attribute) -> String {
    attribute.meta.require_list().map(|list| list.tokens.to_string().replace(' ', "")).unwrap_or_default()
}

impl Finder<'_> {
    fn note(&mut self, span: Span, change: Change, what: String) {
        let range = span.byte_range();
        let (file, function) = (self.file.to_owned(), self.function.join("::"));
        self.found.push(Site {
            file,
            line: span.start().line,
            function,
            start: range.start,
            end: range.end,
            change,
            what,
        });
    }

    fn body(&mut self, output: &syn::ReturnType, block: &syn::Block) {
        if block.stmts.is_empty() {
            return;
        }
        let name = match output {
            syn::ReturnType::Default => "()".to_owned(),
            syn::ReturnType::Type(_, kind) => self.text[kind.span().byte_range()].replace([' ', '\n'], ""),
        };
        let values: &[&'static str] = match name.as_str() {
            "()" => &["()"],
            "bool" => &["true", "false"],
            "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "i32" => &["0", "1"],
            _ if name.starts_with("Option<") => &["None"],
            _ if name.starts_with("Result<(),") => &["Ok(())"],
            _ => &[],
        };
        for &value in values {
            self.note(block.span(), Change::Body(value), format!("returns {value} at once"));
        }
    }

    fn named(&mut self, name: String, inside: impl FnOnce(&mut Self)) {
        self.function.push(name);
        inside(self);
        self.function.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Trait(item) => &item.attrs,
            // Known at compile time, so that nothing can be switched.
            _ => return,
        };
        if !is_left_out(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.text[item.self_ty.span().byte_range()].to_owned();
        let of = of.split('<').next().unwrap_or_default().to_owned();
        if item
            .trait_
            .as_ref()
            .is_some_and(|(_, path, _)| path.segments.iter().any(|s| s.ident == "Debug" || s.ident == "Display"))
        {
            return;
        }
        self.named(of, |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.named(item.sig.ident.to_string(), |finder| {
            finder.body(&item.sig.output, &item.block);
            finder.visit_block(&item.block);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_left_out(&item.attrs) {
            return;
        }
        self.named(item.sig.ident.to_string(), |finder| {
            finder.body(&item.sig.output, &item.block);
            finder.visit_block(&item.block);
        });
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        match statement {
            syn::Stmt::Item(_) | syn::Stmt::Macro(_) => return,
            syn::Stmt::Local(local) if is_left_out(&local.attrs) => return,
            syn::Stmt::Expr(expression, Some(_)) => {
                let is_call = match expression {
                    syn::Expr::MethodCall(call) => !is_left_out(&call.attrs),
                    syn::Expr::Call(_) => true,
                    syn::Expr::Assign(assign) => !matches!(*assign.left, syn::Expr::Path(_)),
                    _ => false,
                };
                if is_call {
                    self.note(statement.span(), Change::Statement, "left out".into());
                }
            }
            syn::Stmt::Expr(..) | syn::Stmt::Local(_) => {}
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.visit_expr(&closure.body);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        use syn::BinOp::*;
        let has_let = |side: &syn::Expr| {
            matches!(side, syn::Expr::Let(_)) || self.text[side.span().byte_range()].contains("let ")
        };
        let news: &[&'static str] = match binary.op {
            And(_) | Or(_) if has_let(&binary.left) || has_let(&binary.right) => &[],
            And(_) => &["||"],
            Or(_) => &["&&"],
            Eq(_) => &["!="],
            Ne(_) => &["=="],
            Lt(_) => &["<=", ">"],
            Gt(_) => &[">=", "<"],
            Le(_) => &["<"],
            Ge(_) => &[">"],
            Add(_) => &["-"],
            Sub(_) => &["+"],
            Mul(_) => &["+"],
            Div(_) => &["*"],
            Rem(_) => &["+"],
            BitAnd(_) => &["|"],
            BitOr(_) => &["&", "^"],
            BitXor(_) => &["|"],
            Shl(_) => &[">>"],
            Shr(_) => &["<<"],
            AddAssign(_) => &["-="],
            SubAssign(_) => &["+="],
            BitOrAssign(_) => &["&="],
            BitAndAssign(_) => &["|="],
            _ => &[],
        };
        let at = binary.op.span().byte_range();
        let old = &self.text[at.clone()];
        for &new in news {
            self.note(
                binary.span(),
                Change::Operator { at: at.start, end: at.end, new },
                format!("{old} becomes {new}"),
            );
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, syn::UnOp::Not(_)) {
            self.note(unary.span(), Change::Unary, "without !".into());
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !self.text[guard.span().byte_range()].contains("let ")
        {
            for value in ["true", "false"] {
                self.note(guard.span(), Change::Guard(value), format!("guard is {value}"));
            }
        }
        visit::visit_arm(self, arm);
    }
}
