//! Compresses the model catalogue into the program. Each provider is compressed separately, so that reading one
//! does not unpack all of them; an index holds their positions.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

const SOURCE: &str = "data/models.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
    let providers: Map<String, Value> = serde_json::from_slice(&fs::read(SOURCE)?)?;
    let mut packed = Vec::new();
    let mut index = Vec::new();
    for (id, mut provider) in providers {
        let models = provider.get_mut("models").map(Value::take).ok_or("a provider without models")?;
        let models = deflate(&models)?;
        index.push(json!({
            "id": id, "name": provider.get("name"), "env": provider.get("env"), "sdk": provider.get("sdk"),
            "url": provider.get("url"), "from": packed.len(), "to": packed.len() + models.len(),
        }));
        packed.extend(models);
    }
    #[expect(clippy::disallowed_methods, reason = "this is how cargo tells a build script where to write")]
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("not run by cargo")?);
    fs::write(folder.join("models.packed"), packed)?;
    fs::write(folder.join("models.index"), deflate(&Value::Array(index))?)?;
    Ok(())
}

fn deflate(value: &Value) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(value.to_string().as_bytes())?;
    Ok(encoder.finish()?)
}
