-- Version 2: sessions, approvals and the log belong to a workspace, which is a directory of one node.
--
-- Until this version one node had the database for itself, so every directory is one of the node `single`. The ids are
-- those of `engine::ports::own_workspace`.

CREATE FUNCTION baton.own_workspace(its_directory text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'wrk_' || left(encode(sha256(convert_to('single' || chr(10) || its_directory, 'UTF8')), 'hex'), 40);
$$;

UPDATE baton.session SET workspace = baton.own_workspace(directory);
ALTER TABLE baton.session ALTER COLUMN workspace DROP DEFAULT;
CREATE INDEX session_workspace ON baton.session (workspace);

-- Approvals of one workspace have one directory.
UPDATE baton.approval SET workspace = baton.own_workspace(directory);
ALTER TABLE baton.approval ALTER COLUMN workspace DROP DEFAULT,
    DROP CONSTRAINT approval_workspace_directory_permission_pattern_key,
    ADD UNIQUE (workspace, permission, pattern);

-- Rows whose event is gone keep the empty workspace: no replay returns them.
UPDATE baton.log SET workspace = baton.own_workspace(event.directory)
    FROM baton.event WHERE event.session = log.session AND event.seq = log.seq;
CREATE INDEX log_workspace ON baton.log (workspace, position);
DROP INDEX baton.event_directory;

-- A status, a request and an event have the workspace of their session or of their row in the log, so that a session
-- that moves to another workspace is one row to change.
ALTER TABLE baton.status DROP COLUMN workspace;
ALTER TABLE baton.request DROP COLUMN workspace;
ALTER TABLE baton.event DROP COLUMN workspace;

DROP FUNCTION baton.own_workspace(text);
DROP FUNCTION baton.append(text, bigint, bigint, integer, text[], bigint[], bigint[]);

-- Gives events the next positions and returns the position before the first. The caller holds the log lock and has
-- taken it in an earlier statement, so this one sees every commit before it.
CREATE FUNCTION baton.append(
    its_node text, its_incarnation bigint, its_writer bigint, its_backend integer,
    workspaces text[], sessions text[], seqs bigint[], bytes bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last_position bigint := 0;
    last_total bigint := 0;
BEGIN
    PERFORM baton.fence(its_node, its_incarnation, its_writer, its_backend);
    SELECT log.position, log.total INTO last_position, last_total
        FROM baton.log ORDER BY log.position DESC LIMIT 1;
    last_position := greatest(coalesce(last_position, 0), (SELECT max(first) - 1 FROM baton.generation));
    INSERT INTO baton.log (position, workspace, session, seq, total)
        SELECT last_position + nth, wish.workspace, wish.session, wish.seq,
            coalesce(last_total, 0) + sum(wish.bytes) OVER (ORDER BY nth)
        FROM unnest(workspaces, sessions, seqs, bytes) WITH ORDINALITY
            AS wish (workspace, session, seq, bytes, nth);
    RETURN last_position;
END $$;
