//! Sign-in of the web page.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    error::Fault,
    extract::{Body, OptionalBody, Params, Query},
    openapi::{Class, Gives, Operation, Route},
    security::{Browser, Caller},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/web/me", "web.me", me)
            .summary("Tell a browser whether it has to sign in; needs no password"),
        Route::post(Class::Node, "/web/login", "web.login", login)
            .summary("Sign a browser in with the password; the response sets its cookie")
            .faults(&[Fault::Overloaded]),
        Route::post(Class::Node, "/web/logout", "web.logout", logout).summary("Sign this browser out"),
        Route::get(Class::Node, "/web/session", "web.session.list", list)
            .summary("List the browsers that are signed in, newest first"),
        Route::delete(Class::Node, "/web/session/{browserID}", "web.session.revoke", revoke)
            .summary("Sign another browser out")
            .faults(&[Fault::NotFound]),
    ]
}

/// The sign-in state of the calling browser.
#[derive(Debug, Serialize, JsonSchema)]
struct Me {
    /// True if the server has a password.
    required: bool,
    /// True if the browser may call every route.
    #[serde(rename = "signedIn")]
    signed_in: bool,
}

/// The page's own path, to which its cookie is limited.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Place {
    /// Path of the page, for a server behind a proxy that strips a prefix. Default: `/`.
    #[serde(default)]
    path: Option<String>,
}

/// Body of a sign-in.
#[derive(Deserialize, JsonSchema)]
struct Login {
    /// User name. Default: the server's.
    #[serde(default)]
    username: Option<String>,
    /// The server's password.
    password: String,
    /// Path of the page, for a server behind a proxy that strips a prefix. Default: `/`.
    #[serde(default)]
    path: Option<String>,
}

/// A sign-in state together with the cookie that goes with it.
struct Answer(Me, Option<HeaderValue>);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(cookie) = self.1 {
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

impl Gives for Answer {
    fn describe(operation: &mut Operation) {
        operation.gives::<Me>(&[("set-cookie", "The browser's cookie, if it has changed.")]);
    }
}

async fn me(caller: Caller, Query(place): Query<Place>) -> Answer {
    let me = Me { required: caller.needs_password(), signed_in: caller.is_signed_in() };
    Answer(me, caller.renewed(place.path.as_deref()))
}

/// Either a sign-in or its refusal, which has the form of every other refused call.
struct SignIn(Result<Answer, Response>);

impl IntoResponse for SignIn {
    fn into_response(self) -> Response {
        self.0.map_or_else(|refusal| refusal, Answer::into_response)
    }
}

impl Gives for SignIn {
    fn describe(operation: &mut Operation) {
        Answer::describe(operation);
    }
}

async fn login(caller: Caller, Body(login): Body<Login>) -> SignIn {
    let signed_in = caller.sign_in(login.username.as_deref(), &login.password, login.path.as_deref()).await;
    let me = Me { required: caller.needs_password(), signed_in: true };
    SignIn(signed_in.map(|cookie| Answer(me, cookie)))
}

async fn logout(caller: Caller, OptionalBody(place): OptionalBody<Place>) -> Result<Answer, Error> {
    let cookie = caller.sign_out(place.path.as_deref()).await.map_err(|error| Error::broken(&error))?;
    let required = caller.needs_password();
    Ok(Answer(Me { required, signed_in: !required }, cookie))
}

async fn list(caller: Caller) -> Json<Vec<Browser>> {
    Json(caller.browsers().map(crate::security::Browsers::list).unwrap_or_default())
}

async fn revoke(caller: Caller, Params(id): Params<String>) -> Result<Json<bool>, Error> {
    if let Some(browsers) = caller.browsers()
        && browsers.revoke(&id).await.map_err(|error| Error::broken(&error))?
    {
        return Ok(Json(true));
    }
    Err(Error::plain(Fault::NotFound, format!("There is no signed-in browser \"{id}\".")))
}
