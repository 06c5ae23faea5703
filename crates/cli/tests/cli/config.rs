//! Configuration files and their effects.

use std::fs;

use crate::world::World;

#[tokio::test]
async fn every_mistake_in_a_configuration_is_reported_with_file_and_line() {
    let world = World::new();
    let file = world.project().join("opencode.json");
    fs::write(&file, "{\n  \"model\": 1,\n  \"modle\": \"demo/simple\"\n}\n").unwrap();
    for args in [&["run", "hi"][..], &["serve", "--port", "0"]] {
        let ended = world.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        for (place, key) in [("2:12", "`model`"), ("3:3", "did you mean `model`?")] {
            let begin = format!("{}:{place}:", file.display());
            let told = ended.stderr.lines().any(|line| line.starts_with(&begin) && line.contains(key));
            assert!(told, "{begin}: {}", ended.stderr);
        }
    }
}

#[tokio::test]
async fn the_configuration_of_the_directory_chooses_the_model() {
    let world = World::new();
    fs::write(world.project().join("opencode.jsonc"), "{ /* small */ \"model\": \"demo/simple\" }").unwrap();
    let ended = world.run_with_data(&["run", "hi"]).await;
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.stdout.starts_with("Hello from the demo model."), "{ended:?}");
}
