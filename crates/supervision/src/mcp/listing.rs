//! Reads the lists of a server page by page, within limits.

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use rmcp::ServiceError;
use rmcp::model::{PaginatedRequestParams, Prompt, Resource, ResourceTemplate, Tool};
use rmcp::service::{Peer, RoleClient};

use crate::limits;

/// One page and the cursor of the next one.
type Page<T> = (Vec<T>, Option<String>);

/// Reads pages until there are no more, or a limit is reached.
async fn pages<'a, T>(
    turn: impl Fn(Option<PaginatedRequestParams>) -> BoxFuture<'a, Result<Page<T>, ServiceError>>,
) -> Result<Vec<T>, ServiceError> {
    let mut all = Vec::new();
    let mut cursor = None;
    for _ in 0..limits::MCP_PAGES {
        let (page, next) = turn(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        all.extend(page);
        cursor = next;
        if cursor.is_none() || all.len() >= limits::MCP_LISTED {
            break;
        }
    }
    if all.len() > limits::MCP_LISTED || cursor.is_some() {
        tracing::warn!(
            taken = all.len().min(limits::MCP_LISTED),
            "an MCP server lists more than the limit; ignoring the rest"
        );
    }
    all.truncate(limits::MCP_LISTED);
    Ok(all)
}

pub(super) async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    pages(|at| peer.list_tools(at).map_ok(|page| (page.tools, page.next_cursor)).boxed()).await
}

pub(super) async fn prompts(peer: &Peer<RoleClient>) -> Result<Vec<Prompt>, ServiceError> {
    pages(|at| peer.list_prompts(at).map_ok(|page| (page.prompts, page.next_cursor)).boxed()).await
}

pub(super) async fn resources(peer: &Peer<RoleClient>) -> Result<Vec<Resource>, ServiceError> {
    pages(|at| peer.list_resources(at).map_ok(|page| (page.resources, page.next_cursor)).boxed()).await
}

pub(super) async fn templates(peer: &Peer<RoleClient>) -> Result<Vec<ResourceTemplate>, ServiceError> {
    let page =
        |at| peer.list_resource_templates(at).map_ok(|page| (page.resource_templates, page.next_cursor));
    pages(|at| page(at).boxed()).await
}
