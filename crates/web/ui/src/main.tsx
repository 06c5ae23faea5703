document.querySelector("#page")?.append("Baton")
