-- Version 5: callers find the node that has a directory, and users see what a node does.

ALTER TABLE baton.workspace
    -- The directory on the home's disk; none if it is not known.
    ADD COLUMN path text COLLATE "C";
UPDATE baton.workspace SET path =
    (SELECT session.directory FROM baton.session WHERE session.workspace = workspace.id ORDER BY session.id LIMIT 1);
-- A path may be longer than a row of a B-tree.
CREATE INDEX workspace_path ON baton.workspace USING hash (path);

ALTER TABLE baton.node
    -- The time of the newest beat, by the clock of the database. Only shown: no decision compares clocks.
    ADD COLUMN beaten timestamptz,
    -- A user wants the node to take no new work until its process ends.
    ADD COLUMN drain boolean NOT NULL DEFAULT false;
