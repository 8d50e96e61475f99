/** The function of the database that writes messages. It is replaced by a migration of its own when it changes. */

/**
 * Writes messages of many rooms: one call, one transaction. Each item is answered: `sent`, `duplicate` (the nonce is
 * known), why it is refused, or `busy`: somebody holds its room, and the call waits for rooms only when it is patient.
 * So one room never holds up another, and calls that lock several rooms cannot wait for each other in a circle. Rooms are
 * locked by a statement of their own: what follows sees all that was committed before. In a direct room whose other member
 * has blocked the sender nothing is written: `silenced`, as for who may not write for other reasons.
 *
 * Files of messages are locked, all of the batch in one order: no foreign key keeps the elements of lists, and who deletes
 * a file looks for messages that hold it. A file that somebody holds makes its message and what follows it in the room
 * `busy`, as the room would.
 *
 * `n` of an item is its place among `items`, from 0. What is asked of few items only (nonces, threads, direct rooms) is
 * asked for each of those; what all have is written by one statement (docs/decisions/438). Plans are made once: PostgreSQL
 * would plan for the length of each list. Each probe has an index or a limit, and none is a scan, whatever is known of the
 * sizes of tables when the plan is made.
 */
export const sendBatch = `
  create or replace function penstock.chat_send_batch(wanted uuid[], items jsonb, nonce_seconds integer, patient boolean)
  returns table (n integer, outcome text, id uuid, seq integer, change integer, created_at timestamptz)
  language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $function$
  #variable_conflict use_column
  declare
    rooms uuid[];
    seqs integer[];
    changes integer[];
    direct boolean[];
    room record;
    item record;
    earlier record;
    place integer;
    sent integer[];
    sent_seqs integer[];
    sent_changes integer[];
    kept uuid[];
    held_up uuid[];
    moment timestamptz(3);
    moment_text text;
  begin
    if patient then
      for room in select r."_id", r."lastSeq", r."lastChange", r."directKey" is not null as is_direct
        from "app"."ChatRoom" r where r."_id" = any(wanted) and not r."deleted" order by r."_id" for no key update
      loop
        rooms := rooms || room."_id";
        seqs := seqs || room."lastSeq";
        changes := changes || room."lastChange";
        direct := direct || room.is_direct;
      end loop;
    else
      for room in select r."_id", r."lastSeq", r."lastChange", r."directKey" is not null as is_direct
        from "app"."ChatRoom" r where r."_id" = any(wanted) and not r."deleted" for no key update skip locked
      loop
        rooms := rooms || room."_id";
        seqs := seqs || room."lastSeq";
        changes := changes || room."lastChange";
        direct := direct || room.is_direct;
      end loop;
    end if;
    if jsonb_path_exists(items, '$[*].files[0]') then
      if patient then
        select array_agg(k."_id") into kept from (select f."_id" from "app"."File" f
          where f."_id" = any(array(select (jsonb_path_query(items, '$[*].files[*]') #>> '{}')::uuid))
          order by f."_id" for key share) k;
      else
        select array_agg(k."_id") into kept from (select f."_id" from "app"."File" f
          where f."_id" = any(array(select (jsonb_path_query(items, '$[*].files[*]') #>> '{}')::uuid))
          order by f."_id" for key share skip locked) k;
      end if;
    end if;
    moment := clock_timestamp();
    for item in
      select x.*, m.found as is_member, m."silencedUntil" as silenced_until
      from jsonb_to_recordset(items) as x(n integer, room uuid, id uuid, sender uuid, "asMember" boolean, nonce text, "threadRoot" uuid,
        files uuid[])
      left join lateral (select true as found, m."silencedUntil" from "app"."ChatMember" m
        where x."asMember" and m."room" = x.room and m."user" = x.sender limit 1) m on true
      order by x.n
    loop
      n := item.n;
      outcome := 'sent';
      id := null;
      seq := null;
      change := null;
      created_at := null;
      place := array_position(rooms, item.room);
      if item.room = any(held_up) then
        outcome := 'busy';
      elsif place is null then
        outcome := 'noRoom';
        if not patient then
          perform from "app"."ChatRoom" r where r."_id" = item.room and not r."deleted";
          if found then outcome := 'busy'; end if;
        end if;
      elsif item."asMember" and item.is_member is null then
        outcome := 'noRoom';
      elsif item."asMember" and item.silenced_until > moment then
        outcome := 'silenced';
      elsif item."asMember" and direct[place] then
        perform from "app"."ChatMember" o join penstock.chat_blocks c on c.user_id = o."user" and c.blocked_id = item.sender
          where o."room" = item.room;
        if found then outcome := 'silenced'; end if;
      end if;
      if outcome = 'sent' and item.nonce is not null then
        select m."_id", m."seq", m."change", m."createdAt" into earlier from "app"."ChatMessage" m
          where m."room" = item.room and m."senderUser" = item.sender and m."nonce" = item.nonce;
        if found and earlier."createdAt" > moment - nonce_seconds * interval '1 second' then
          outcome := 'duplicate';
          id := earlier."_id";
          seq := earlier."seq";
          change := earlier."change";
          created_at := earlier."createdAt";
        elsif found then
          update "app"."ChatMessage" m set "nonce" = null where m."_id" = earlier."_id";
        end if;
      end if;
      if outcome = 'sent' and item.files <> '{}' and not item.files <@ coalesce(kept, '{}') then
        outcome := 'noFile';
        if not patient then
          perform from "app"."File" f where f."_id" = any(item.files) having count(*) = cardinality(item.files);
          if found then
            outcome := 'busy';
            held_up := held_up || item.room;
          end if;
        end if;
      end if;
      if outcome = 'sent' and item."threadRoot" is not null then
        update "app"."ChatMessage" m set "replyCount" = m."replyCount" + 1
          where m."_id" = item."threadRoot" and m."room" = item.room and not m."deleted";
        if not found then outcome := 'noRoot'; end if;
      end if;
      if outcome = 'sent' then
        seqs[place] := seqs[place] + 1;
        changes[place] := changes[place] + 1;
        id := item.id;
        seq := seqs[place];
        change := changes[place];
        created_at := moment;
        sent := sent || n;
        sent_seqs := sent_seqs || seq;
        sent_changes := sent_changes || change;
      end if;
      return next;
    end loop;
    if sent is null then return; end if;
    moment_text := to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
    with placed as materialized (
      select x.*, s.seq, s.change
      from unnest(sent, sent_seqs, sent_changes) as s(n, seq, change),
        jsonb_to_record(items -> s.n) as x(room uuid, id uuid, sender uuid, type text,
          content text, files uuid[], mentions uuid[], nonce text, "threadRoot" uuid, actor text)
      order by s.n
    ), written as (
      insert into "app"."ChatMessage" ("_id", "room", "senderUser", "messageType", "message", "files", "mentions", "seq",
        "change", "changeKind", "nonce", "threadRoot", "replyCount", "deleted", "removed", "createdAt", "updatedAt", "__v")
      select p.id, p.room, p.sender, p.type, p.content, coalesce(p.files, '{}'), coalesce(p.mentions, '{}'), p.seq,
        p.change, 'sent', p.nonce, p."threadRoot", 0, false, false, moment, moment, 0
      from placed p
    ), announced as (
      insert into penstock.outbox (topic, ids, payload, actor)
      select 'chat:create:ChatMessage', array[p.id::text], jsonb_build_object('_id', p.id, 'room', p.room, 'sender', p.sender,
          'contentType', p.type, 'seq', p.seq, 'change', p.change, 'createdAt', moment_text), p.actor
      from placed p
    )
    update "app"."ChatRoom" r set "lastSeq" = p.seq, "lastChange" = p.change, "lastMessageAt" = moment
    from unnest(rooms, seqs, changes) as p(room, seq, change) where r."_id" = p.room and r."lastSeq" <> p.seq;
  end
  $function$;
`;
