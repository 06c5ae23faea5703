-- Version 4: several nodes.
--
-- The rules by which these rows change are those of `engine::fleet::Record`. Every change of an incarnation, a writer, a
-- state or an owner happens under the log lock; only the beat changes without it. The node `single` is the one that has
-- the database for itself.

ALTER TABLE baton.node
    -- Grows while the node lives.
    ADD COLUMN beat bigint NOT NULL DEFAULT 0,
    ADD COLUMN state text COLLATE "C" NOT NULL DEFAULT 'up' CHECK (state IN ('up', 'draining', 'dead')),
    -- The URL at which the other nodes reach it.
    ADD COLUMN address text NOT NULL DEFAULT '',
    ADD COLUMN version text NOT NULL DEFAULT '';

ALTER TABLE baton.workspace
    -- The node whose disk has the directory; none if every node can reach the files.
    ADD COLUMN home text COLLATE "C",
    ADD COLUMN owner text COLLATE "C",
    -- The owner may end turns and must not run any.
    ADD COLUMN custody boolean NOT NULL DEFAULT false;

-- The number above which the present generation gives out incarnations, writers and epochs. A database that has lost
-- commits may have lost the newest numbers too, and none may be given twice.
CREATE FUNCTION baton.floor() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT max(number) * 4294967296 FROM baton.generation;
$$;

-- Fails unless the caller is the newest writer of the newest process of its node. The row is not locked: a caller that
-- holds the log lock needs no lock on it, and a beat must not wait for a commit.
CREATE FUNCTION baton.prove(its_node text, its_incarnation bigint, its_writer bigint, its_backend integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_backend_pid() <> its_backend THEN
        RAISE EXCEPTION USING ERRCODE = 'BN003', MESSAGE =
            'the connection was moved to another session of the database';
    END IF;
    IF EXISTS (SELECT FROM baton.node
        WHERE id = its_node AND incarnation = its_incarnation AND writer = its_writer) THEN
        RETURN;
    ELSIF its_node = 'single' THEN
        RAISE EXCEPTION USING ERRCODE = 'BN001', MESSAGE = 'another server has taken over this database';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'BN001', MESSAGE = format(
        'the node %s was declared dead, or another process has started as this node', its_node);
END $$;

-- The same for a transaction without the log lock. The row is locked, so that a successor waits for the transaction.
CREATE OR REPLACE FUNCTION baton.fence(
    its_node text, its_incarnation bigint, its_writer bigint, its_backend integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM baton.node WHERE id = its_node FOR SHARE;
    PERFORM baton.prove(its_node, its_incarnation, its_writer, its_backend);
END $$;

DROP FUNCTION baton.own(text[], bigint[]);

-- Fails unless the node owns each workspace under the given epoch. A node that has the database for itself also owns
-- every workspace without a row.
CREATE FUNCTION baton.own(its_node text, fenced text[], epochs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    SELECT wish.id, wish.epoch, coalesce(workspace.epoch, 0) AS found, workspace.owner INTO wrong
        FROM unnest(fenced, epochs) AS wish (id, epoch) LEFT JOIN baton.workspace ON workspace.id = wish.id
        WHERE coalesce(workspace.epoch, 0) <> wish.epoch
            OR coalesce(workspace.owner, CASE WHEN workspace.id IS NULL THEN 'single' END) IS DISTINCT FROM its_node
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'BN004', MESSAGE = format(
            'another node owns the workspace %s (epoch %s, the writer has %s)', wrong.id, wrong.found, wrong.epoch);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION baton.accept(
    its_node text, its_incarnation bigint, its_writer bigint, its_backend integer,
    fenced text[], epochs bigint[],
    sessions text[], expected bigint[], creating boolean[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    PERFORM 1 FROM baton.session WHERE id = ANY (sessions) ORDER BY id FOR UPDATE;
    SELECT wish.id, wish.expected, session.head INTO wrong
        FROM unnest(sessions, expected, creating) AS wish (id, expected, creating)
        LEFT JOIN baton.session ON session.id = wish.id
        WHERE (session.id IS NULL AND NOT wish.creating) OR coalesce(session.head, 0) <> wish.expected
        LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM baton.fence(its_node, its_incarnation, its_writer, its_backend);
    PERFORM baton.own(its_node, fenced, epochs);
    IF wrong.head IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'BN002', MESSAGE = format('session %s does not exist', wrong.id);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'BN002', MESSAGE = format(
        'session %s has %s events, the writer expected %s', wrong.id, wrong.head, wrong.expected);
END $$;

-- As before, and tells the tails of the other nodes the newest position.
CREATE OR REPLACE FUNCTION baton.append(
    its_node text, its_incarnation bigint, its_writer bigint, its_backend integer,
    fenced text[], epochs bigint[],
    workspaces text[], sessions text[], seqs bigint[], bytes bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last_position bigint := 0;
    last_total bigint := 0;
BEGIN
    PERFORM baton.prove(its_node, its_incarnation, its_writer, its_backend);
    PERFORM baton.own(its_node, fenced, epochs);
    SELECT log.position, log.total INTO last_position, last_total
        FROM baton.log ORDER BY log.position DESC LIMIT 1;
    last_position := greatest(coalesce(last_position, 0), (SELECT max(first) - 1 FROM baton.generation));
    INSERT INTO baton.log (position, workspace, session, seq, total)
        SELECT last_position + nth, wish.workspace, wish.session, wish.seq,
            coalesce(last_total, 0) + sum(wish.bytes) OVER (ORDER BY nth)
        FROM unnest(workspaces, sessions, seqs, bytes) WITH ORDINALITY
            AS wish (workspace, session, seq, bytes, nth);
    IF its_node <> 'single' THEN
        PERFORM pg_notify('baton_log', (last_position + cardinality(sessions))::text);
    END IF;
    RETURN last_position;
END $$;
