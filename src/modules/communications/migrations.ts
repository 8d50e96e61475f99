/** The outbox of messages to people. */
import type { Migration } from '../../kernel/database/migrate.ts';

/**
 * `content_sealed` holds what is to be sent, encrypted, since it carries links and codes that open
 * accounts; it is erased when the message was sent. `status`: queued, sending (since `claimed_at`),
 * sent, captured (sandbox), failed.
 */
const messages = `
  create table penstock.messages (
    id uuid primary key,
    channel text not null,
    recipient text not null,
    user_id uuid,
    template text,
    status text not null,
    attempts integer not null default 0,
    content_sealed text,
    error text,
    created_at timestamptz(3) not null default now(),
    claimed_at timestamptz(3),
    finished_at timestamptz(3)
  );
  create index messages_by_time on penstock.messages (created_at desc, id desc);
  create index messages_of_recipient on penstock.messages (recipient, created_at desc);
  create index messages_of_user on penstock.messages (user_id) where user_id is not null;
`;

/**
 * Devices, topics and the inbox. Figures of the inbox are counted by triggers, so that they are exact and cost one row
 * however many entries there are. Ids grow with time, so that the newest entries are the largest ids.
 */
const push = `
  create table penstock.push_devices (
    id uuid primary key,
    user_id uuid not null,
    token text not null,
    token_hash bytea not null,
    platform text not null,
    device_id text,
    locale text,
    app_version text,
    environment text,
    web_keys jsonb,
    endpoint_ref text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index push_devices_token on penstock.push_devices (token_hash);
  create index push_devices_of_user on penstock.push_devices (user_id, updated_at desc);
  create table penstock.push_topics (
    topic text not null,
    user_id uuid not null,
    created_at timestamptz(3) not null default now(),
    primary key (topic, user_id)
  );
  create index push_topics_of_user on penstock.push_topics (user_id);
  create table penstock.broadcasts (
    id uuid primary key,
    status text not null,
    topic text,
    user_ids uuid[],
    content_sealed text not null,
    position uuid,
    recipients integer not null,
    queued integer not null default 0,
    skipped integer not null default 0,
    created_at timestamptz(3) not null default now(),
    finished_at timestamptz(3)
  );
  create index broadcasts_by_time on penstock.broadcasts (created_at desc, id desc);
  create table penstock.notifications (
    id uuid primary key,
    user_id uuid not null,
    title text not null,
    body text,
    data jsonb,
    platform text,
    category text,
    read_at timestamptz(3),
    created_at timestamptz(3) not null default now()
  );
  create index notifications_of_user on penstock.notifications (user_id, id desc);
  create index notifications_unread on penstock.notifications (user_id, id desc) where read_at is null;
  create index notifications_read on penstock.notifications (user_id, id desc) where read_at is not null;
  create index notifications_category on penstock.notifications (user_id, category, id desc) where category is not null;
  create index notifications_platform on penstock.notifications (user_id, platform, id desc) where platform is not null;
  create table penstock.inbox_counts (
    user_id uuid not null,
    platform text not null,
    category text not null,
    total bigint not null,
    unread bigint not null,
    primary key (user_id, platform, category)
  );
  create function penstock.count_inbox() returns trigger language plpgsql as $body$
  begin
    if tg_op = 'INSERT' then
      insert into penstock.inbox_counts as c (user_id, platform, category, total, unread)
        select user_id, coalesce(platform, ''), coalesce(category, ''), count(*), count(*) filter (where read_at is null)
        from new_rows group by 1, 2, 3 order by 1, 2, 3
        on conflict (user_id, platform, category) do update set total = c.total + excluded.total, unread = c.unread + excluded.unread;
    elsif tg_op = 'DELETE' then
      update penstock.inbox_counts c set total = c.total - gone.total, unread = c.unread - gone.unread
        from (select d.user_id, d.platform, d.category, d.total, d.unread from (
            select user_id, coalesce(platform, '') as platform, coalesce(category, '') as category, count(*) as total, count(*) filter (where read_at is null) as unread
            from old_rows group by 1, 2, 3) d
          join penstock.inbox_counts held using (user_id, platform, category) order by 1, 2, 3 for update of held) gone
        where (c.user_id, c.platform, c.category) = (gone.user_id, gone.platform, gone.category);
    else
      update penstock.inbox_counts c set unread = c.unread + moved.unread
        from (select d.user_id, d.platform, d.category, d.unread from (
            select n.user_id, coalesce(n.platform, '') as platform, coalesce(n.category, '') as category,
              count(*) filter (where n.read_at is null) - count(*) filter (where o.read_at is null) as unread
            from new_rows n join old_rows o using (id) group by 1, 2, 3) d
          join penstock.inbox_counts held using (user_id, platform, category) where d.unread <> 0 order by 1, 2, 3 for update of held) moved
        where (c.user_id, c.platform, c.category) = (moved.user_id, moved.platform, moved.category);
    end if;
    return null;
  end $body$;
  create trigger count_insert after insert on penstock.notifications referencing new table as new_rows for each statement execute function penstock.count_inbox();
  create trigger count_delete after delete on penstock.notifications referencing old table as old_rows for each statement execute function penstock.count_inbox();
  create trigger count_update after update on penstock.notifications referencing old table as old_rows new table as new_rows for each statement execute function penstock.count_inbox();
`;

/**
 * What happened to a message, in order, in the provider's own words. `settled` lists the devices that need no further
 * attempt, so that a second one reaches only the others.
 */
const timeline = `
  alter table penstock.messages
    add column provider text,
    add column provider_id text,
    add column settled jsonb,
    add column idempotency_key text,
    add column request_hash text;
  create index messages_of_provider on penstock.messages (provider_id) where provider_id is not null;
  create unique index messages_idempotency on penstock.messages (idempotency_key) where idempotency_key is not null;
  create table penstock.message_events (
    message_id uuid not null references penstock.messages (id) on delete cascade,
    sequence bigint generated always as identity,
    kind text not null,
    provider text,
    detail text,
    at timestamptz(3) not null default clock_timestamp(),
    primary key (message_id, sequence)
  );
  create table penstock.suppressions (
    channel text not null,
    address text not null,
    reason text not null,
    detail text,
    created_at timestamptz(3) not null default now(),
    primary key (channel, address)
  );
  create table penstock.provider_events (
    provider text not null,
    event_id text not null,
    created_at timestamptz(3) not null default now(),
    primary key (provider, event_id)
  );
  create index provider_events_by_time on penstock.provider_events (created_at);
`;

/**
 * What lists of mails show beside the recipient, why a message waits, and whether its recipient may refuse it. The scope
 * of a suppression: empty for everything, `*` for everything that is not critical, else one category.
 */
const feedback = `
  alter table penstock.messages
    add column sender text,
    add column copies text[],
    add column reply_to text,
    add column category text,
    add column critical boolean not null default true,
    add column due_at timestamptz(3),
    add column resent_from uuid,
    add column chain_id uuid;
  create index messages_of_channel on penstock.messages (channel, created_at desc, id desc);
  alter table penstock.suppressions drop constraint suppressions_pkey;
  alter table penstock.suppressions add column scope text not null default '';
  alter table penstock.suppressions add primary key (channel, address, scope);
  create index suppressions_by_time on penstock.suppressions (created_at desc, channel, address, scope);
`;

/** Parts that templates share, and what users chose. `quiet_*` are minutes of the day; null: as configured; equal: never. */
const choices = `
  create table penstock.message_partials (
    name text primary key,
    body text not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create table penstock.message_settings (
    user_id uuid primary key,
    locale text,
    timezone text,
    quiet_start integer,
    quiet_end integer
  );
  create table penstock.message_preferences (
    user_id uuid not null,
    category text not null,
    channel text not null,
    enabled boolean not null,
    primary key (user_id, category, channel)
  );
`;

/**
 * Messages that go over several channels, one after the other: where a chain stands is one row, and changes with the
 * message of its step. Digests collect what would be many messages.
 */
const chains = `
  create table penstock.message_chains (
    id uuid primary key,
    user_id uuid,
    status text not null,
    content_sealed text not null,
    steps jsonb not null,
    position integer not null default 0,
    message_id uuid,
    notification_id uuid,
    step_until timestamptz(3),
    attempts jsonb not null default '[]',
    created_at timestamptz(3) not null default now(),
    finished_at timestamptz(3)
  );
  create index message_chains_by_time on penstock.message_chains (created_at desc, id desc);
  create index message_chains_of_user on penstock.message_chains (user_id) where user_id is not null;
  create table penstock.message_digests (
    id uuid primary key,
    channel text not null,
    recipient text not null,
    key text not null,
    user_id uuid,
    content_sealed text not null,
    due_at timestamptz(3) not null,
    items integer not null default 0,
    unique (channel, recipient, key)
  );
  create index message_digests_of_user on penstock.message_digests (user_id) where user_id is not null;
  create table penstock.message_digest_items (
    digest_id uuid not null references penstock.message_digests (id) on delete cascade,
    sequence bigint generated always as identity,
    variables_sealed text not null,
    primary key (digest_id, sequence)
  );
`;

/**
 * When each provider may be asked again (`providers.perSecond`), over all nodes. Whom a broadcast goes to is rows of its
 * own, so that a page of it costs a page, and no limit of an array holds.
 */
const atSize = `
  create table penstock.provider_pace (
    provider text primary key,
    begins_at timestamptz not null,
    granted integer not null,
    next_at timestamptz not null
  );
  alter table penstock.broadcasts
    add column channel text not null default 'push',
    add column audience text not null default 'listed',
    add column place bigint not null default 0,
    add column cancelled integer not null default 0;
  update penstock.broadcasts set audience = 'topic' where topic is not null;
  create table penstock.broadcast_recipients (
    broadcast_id uuid not null references penstock.broadcasts (id) on delete cascade,
    place bigint not null,
    user_id uuid,
    address text,
    primary key (broadcast_id, place)
  );
  create index broadcast_recipients_of_user on penstock.broadcast_recipients (user_id) where user_id is not null;
  insert into penstock.broadcast_recipients (broadcast_id, place, user_id)
    select b.id, listed.place, listed.user_id from penstock.broadcasts b, unnest(b.user_ids) with ordinality as listed(user_id, place)
    where b.status = 'running' and (b.position is null or listed.user_id > b.position);
  alter table penstock.broadcasts drop column user_ids;
  alter table penstock.messages add column broadcast_id uuid;
  create index messages_of_broadcast on penstock.messages (broadcast_id) where broadcast_id is not null;
`;

/**
 * Chains that are kept under a name. A message changes at least twice while it goes out: with room in its page that
 * writes no index.
 */
const keptChains = `
  create table penstock.chain_definitions (
    name text primary key,
    steps jsonb not null,
    allow_duplicate boolean not null default false,
    template_name text,
    description text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  alter table penstock.message_chains add column name text;
  alter table penstock.messages set (fillfactor = 60);
`;

/** How often delivery is tried again has the name of the interface. */
const retryKeys = ['config', 'config_history']
  .map(
    (table) => `
  update penstock.${table} set config = jsonb_set(config #- '{messages,retries}', '{orchestration}',
    jsonb_build_object('retryAttempts', config #> '{messages,retries}') || coalesce(config -> 'orchestration', '{}'))
  where name = 'communications' and config #> '{messages,retries}' is not null;`,
  )
  .join('');

/** Mails whose provider is asked what became of them. */
const unreported = `
  create index messages_unreported on penstock.messages (finished_at) where channel = 'email' and status = 'sent' and provider = 'mailgun';
`;

/** The hooks and functions that caused a message: what causes itself without an end is found out by them. */
const causes = `alter table penstock.messages add column caused_by text[];`;

/** In which session a device was registered: it ends with it. Those from before know none. */
const deviceSessions = `alter table penstock.push_devices add column session_id uuid;`;

/** The module that wrote a broadcast, and what it is about in its words: it is asked again before a message goes out. */
const subjects = `alter table penstock.broadcasts add column module text, add column subject text;`;

const step = (id: string, text: string): Migration => ({
  id,
  run: async (database) => void (await database.query({ text })),
});

export const migrations: readonly Migration[] = [
  step('0001-messages', messages),
  step('0002-push', push),
  step('0003-timeline', timeline),
  step('0004-feedback', feedback),
  step('0005-choices', choices),
  step('0006-chains', chains),
  step('0007-at-size', atSize),
  step('0008-kept-chains', keptChains),
  step('0009-retry-keys', retryKeys),
  step('0010-unreported', unreported),
  step('0011-causes', causes),
  step('0012-device-sessions', deviceSessions),
  step('0013-subjects', subjects),
];
