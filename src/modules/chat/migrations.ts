/** What chat keeps beside its schemas. It runs after the schemas have their tables. */
import type { Migration } from '../../kernel/database/migrate.ts';
import { sendBatch } from './send-batch.ts';

const moderation = `
  create table penstock.chat_reactions (
    message_id uuid not null references "app"."ChatMessage" ("_id") on delete cascade,
    emoji text not null,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    created_at timestamptz(3) not null default now(),
    primary key (message_id, emoji, user_id)
  );
  create index chat_reactions_of_user on penstock.chat_reactions (user_id);
  create table penstock.chat_bans (
    room_id uuid not null references "app"."ChatRoom" ("_id") on delete cascade,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    banned_by uuid,
    reason text,
    until timestamptz(3),
    created_at timestamptz(3) not null default now(),
    primary key (room_id, user_id)
  );
  create index chat_bans_of_user on penstock.chat_bans (user_id);
  create table penstock.chat_blocks (
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    blocked_id uuid not null references "app"."User" ("_id") on delete cascade,
    created_at timestamptz(3) not null default now(),
    primary key (user_id, blocked_id)
  );
  create index chat_blocks_of_blocked on penstock.chat_blocks (blocked_id);
  create table penstock.chat_reports (
    id uuid primary key,
    message_id uuid not null references "app"."ChatMessage" ("_id") on delete cascade,
    reporter_id uuid references "app"."User" ("_id") on delete set null,
    reason text not null,
    state text not null default 'open',
    created_at timestamptz(3) not null default now(),
    resolved_at timestamptz(3),
    resolved_by text,
    unique (message_id, reporter_id)
  );
  create index chat_reports_by_state on penstock.chat_reports (state, id);
`;

/** Who has a socket open, on which node. A node that dies renews nothing. */
const presence = `
  create table penstock.chat_presence (
    user_id uuid not null,
    node_id text not null,
    status text not null default 'online',
    expires_at timestamptz(3) not null,
    primary key (user_id, node_id)
  );
  create index chat_presence_of_node on penstock.chat_presence (node_id);
  create table penstock.chat_last_seen (
    user_id uuid primary key references "app"."User" ("_id") on delete cascade,
    seen_at timestamptz(3) not null
  );
`;

/**
 * Writes messages of one room, for nodes of a release before 0004. One call, one transaction, one lock of the room. Each item is answered: \`sent\`,
 * \`duplicate\` (the nonce is known), or why it is refused. The events are written with them.
 */
const send = `
  create function penstock.chat_send(wanted uuid, items jsonb, nonce_seconds integer)
  returns table (n integer, outcome text, id uuid, seq integer, change integer, created_at timestamptz)
  language plpgsql as $function$
  declare
    room record;
    item record;
    earlier record;
    member record;
    next_seq integer;
    next_change integer;
    moment timestamptz(3);
    sent integer := 0;
  begin
    select r."lastSeq", r."lastChange" into room from "app"."ChatRoom" r
      where r."_id" = wanted and not r."deleted" for no key update;
    if not found then
      return query select x.n, 'noRoom'::text, null::uuid, null::integer, null::integer, null::timestamptz
        from jsonb_to_recordset(items) as x(n integer);
      return;
    end if;
    next_seq := room."lastSeq";
    next_change := room."lastChange";
    moment := clock_timestamp();
    for item in select * from jsonb_to_recordset(items) as x(n integer, id uuid, sender uuid, "asMember" boolean,
      type text, content text, files uuid[], mentions uuid[], nonce text, "threadRoot" uuid, actor text)
    loop
      n := item.n; id := null; seq := null; change := null; created_at := null;
      if item."asMember" then
        select m."silencedUntil" into member from "app"."ChatMember" m where m."room" = wanted and m."user" = item.sender;
        if not found then outcome := 'noRoom'; return next; continue; end if;
        if member."silencedUntil" > moment then outcome := 'silenced'; return next; continue; end if;
      end if;
      if item.nonce is not null then
        select m."_id", m."seq", m."change", m."createdAt" into earlier from "app"."ChatMessage" m
          where m."room" = wanted and m."senderUser" = item.sender and m."nonce" = item.nonce;
        if found and earlier."createdAt" > moment - nonce_seconds * interval '1 second' then
          outcome := 'duplicate'; id := earlier."_id"; seq := earlier."seq"; change := earlier."change";
          created_at := earlier."createdAt"; return next; continue;
        elsif found then
          update "app"."ChatMessage" m set "nonce" = null where m."_id" = earlier."_id";
        end if;
      end if;
      if item."threadRoot" is not null then
        update "app"."ChatMessage" m set "replyCount" = m."replyCount" + 1
          where m."_id" = item."threadRoot" and m."room" = wanted and not m."deleted";
        if not found then outcome := 'noRoot'; return next; continue; end if;
      end if;
      next_seq := next_seq + 1;
      next_change := next_change + 1;
      sent := sent + 1;
      insert into "app"."ChatMessage" ("_id", "room", "senderUser", "messageType", "message", "files", "mentions", "seq",
        "change", "changeKind", "nonce", "threadRoot", "replyCount", "deleted", "removed", "createdAt", "updatedAt", "__v")
      values (item.id, wanted, item.sender, item.type, item.content, coalesce(item.files, '{}'), coalesce(item.mentions, '{}'), next_seq,
        next_change, 'sent', item.nonce, item."threadRoot", 0, false, false, moment, moment, 0);
      insert into penstock.outbox (topic, ids, payload, actor) values ('chat:create:ChatMessage', array[item.id::text],
        jsonb_build_object('_id', item.id, 'room', wanted, 'sender', item.sender, 'contentType', item.type, 'seq', next_seq,
          'change', next_change, 'createdAt', to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')), item.actor);
      outcome := 'sent'; id := item.id; seq := next_seq; change := next_change; created_at := moment;
      return next;
    end loop;
    if sent > 0 then
      update "app"."ChatRoom" r set "lastSeq" = next_seq, "lastChange" = next_change, "lastMessageAt" = moment
        where r."_id" = wanted;
    end if;
  end
  $function$;
`;

/** Pages far back count the tombstones before them. */
const tombstones = `
  create index chat_message_tombstones on "app"."ChatMessage" ("room", "seq") where "deleted";
`;

/** What messages said before they were changed, where that is kept. */
const edits = `
  create table penstock.chat_edits (
    message_id uuid not null references "app"."ChatMessage" ("_id") on delete cascade,
    change integer not null,
    content text,
    replaced_at timestamptz(3) not null default clock_timestamp(),
    primary key (message_id, change)
  );
`;

/** A user who goes is looked for in the reports that they have made. */
const reporters = `
  create index chat_reports_of_reporter on penstock.chat_reports (reporter_id) where reporter_id is not null;
`;

/** Who may not write, and has left meanwhile. */
const silences = `
  create table penstock.chat_silences (
    room_id uuid not null references "app"."ChatRoom" ("_id") on delete cascade,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    until timestamptz(3) not null,
    primary key (room_id, user_id)
  );
  create index chat_silences_of_user on penstock.chat_silences (user_id);
`;

/** Words of messages wait on the lists of their indexes, from which they are moved beside the batches (services/sending.ts). */
const wordsInTurn = `
  do $$
  declare found record;
  begin
    for found in
      select format('%I.%I', n.nspname, c.relname) as name
      from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
        join pg_am a on a.oid = c.relam
      where i.indrelid = to_regclass('"app"."ChatMessage"') and a.amname = 'gin'
    loop
      execute 'alter index ' || found.name || ' reset (fastupdate)';
    end loop;
  end $$
`;

const inWords =
  (text: string): Migration['run'] =>
  async (database) =>
    void (await database.query({ text }));

export const migrations: readonly Migration[] = [
  { id: '0001-moderation', run: inWords(moderation) },
  { id: '0002-presence', run: inWords(presence) },
  { id: '0003-send', run: inWords(send) },
  { id: '0004-send-batch', run: inWords(sendBatch) },
  { id: '0005-tombstones', run: inWords(tombstones) },
  { id: '0006-edits', run: inWords(edits) },
  { id: '0007-blocks-in-direct-rooms', run: inWords(sendBatch) },
  { id: '0008-reporters', run: inWords(reporters) },
  { id: '0009-words-in-turn', run: inWords(wordsInTurn) },
  { id: '0010-silences', run: inWords(silences) },
  { id: '0011-lean-batches', run: inWords(sendBatch) },
  { id: '0012-files-of-batches', run: inWords(sendBatch) },
];
