//! The nodes of a tree, in its order.

use pageblock_frame::NodeId;

use super::tokens::{Token, Tokens, be32};

/// Whether a node describes something that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Okay,
    Disabled,
}

/// A node, as far as memory maps are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    /// 0 for the root.
    pub(super) depth: u32,
    pub(super) name: &'a [u8],
    /// Name of the node below the root that this one is in, or is.
    pub(super) top: &'a [u8],
    /// Where its properties begin.
    body: Tokens<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn property(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        let mut body = self.body;
        // Properties stand before the first child.
        while let Some(Token::Property { name, value }) = body.next_token() {
            if name == wanted {
                return Some(value);
            }
        }
        None
    }

    /// True if its `device_type` is this one or, where it has none, its name without address.
    pub(super) fn is_of(&self, device_type: &[u8], name: &[u8]) -> bool {
        match self.property(b"device_type") {
            Some(value) => value.strip_suffix(&[0]).unwrap_or(value) == device_type,
            None => self.name.split(|byte| *byte == b'@').next() == Some(name),
        }
    }

    pub(super) fn status(&self) -> Status {
        match self.property(b"status") {
            None | Some(b"okay\0" | b"ok\0") => Status::Okay,
            Some(_) => Status::Disabled,
        }
    }

    /// The memory node that it is on, 0 if it does not say.
    pub(super) fn numa(&self) -> NodeId {
        node_id(self.property(b"numa-node-id").and_then(|value| be32(value, 0)).unwrap_or(0))
    }
}

/// A number that is too large stays too large: the map's builder names the region.
pub(super) fn node_id(number: u32) -> NodeId {
    NodeId::new(u8::try_from(number).unwrap_or(u8::MAX))
}

/// All nodes, each before its children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodes<'a> {
    tokens: Tokens<'a>,
    /// Nodes that have begun and not ended.
    open: u32,
    top: &'a [u8],
}

impl<'a> Nodes<'a> {
    pub(super) const fn new(tokens: Tokens<'a>) -> Self {
        Self { tokens, open: 0, top: &[] }
    }
}

impl<'a> Iterator for Nodes<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        loop {
            match self.tokens.next_token()? {
                Token::Begin(name) => {
                    let depth = self.open;
                    self.open += 1;
                    if depth == 1 {
                        self.top = name;
                    }
                    return Some(Node { depth, name, top: self.top, body: self.tokens });
                }
                Token::End => self.open = self.open.saturating_sub(1),
                Token::Property { .. } => {}
                Token::Stop => return None,
            }
        }
    }
}
