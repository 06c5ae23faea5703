-- Version 3: the owner of a workspace.
--
-- `epoch` grows each time that a workspace gets another owner, under the log lock. A workspace that never had a second
-- owner has no row, and the epoch 0.

CREATE TABLE baton.workspace (id text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL);

-- Fails unless the writer has the present epoch of each workspace.
CREATE FUNCTION baton.own(fenced text[], epochs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    SELECT wish.id, wish.epoch, coalesce(workspace.epoch, 0) AS found INTO wrong
        FROM unnest(fenced, epochs) AS wish (id, epoch) LEFT JOIN baton.workspace ON workspace.id = wish.id
        WHERE coalesce(workspace.epoch, 0) <> wish.epoch LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'BN004', MESSAGE = format(
            'another node owns the workspace %s (epoch %s, the writer has %s)', wrong.id, wrong.found, wrong.epoch);
    END IF;
END $$;

DROP FUNCTION baton.accept(text[], bigint[], boolean[]);

-- Checks that commits continue their sessions, and locks the sessions in the order of their ids. A commit that does not
-- continue its session is one of a fenced writer if another node has written in between, and is refused as such.
CREATE FUNCTION baton.accept(
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
    PERFORM baton.own(fenced, epochs);
    IF wrong.head IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'BN002', MESSAGE = format('session %s does not exist', wrong.id);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'BN002', MESSAGE = format(
        'session %s has %s events, the writer expected %s', wrong.id, wrong.head, wrong.expected);
END $$;

DROP FUNCTION baton.append(text, bigint, bigint, integer, text[], text[], bigint[], bigint[]);

-- Checks the fences of the writer and of its workspaces, gives events the next positions, and returns the position before
-- the first. The caller holds the log lock and has taken it in an earlier statement, so this one sees every commit and
-- every change of an owner before it.
CREATE FUNCTION baton.append(
    its_node text, its_incarnation bigint, its_writer bigint, its_backend integer,
    fenced text[], epochs bigint[],
    workspaces text[], sessions text[], seqs bigint[], bytes bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last_position bigint := 0;
    last_total bigint := 0;
BEGIN
    PERFORM baton.fence(its_node, its_incarnation, its_writer, its_backend);
    PERFORM baton.own(fenced, epochs);
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
