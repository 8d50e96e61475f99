/** The tables of embeddings. None of them refers to tables of schemas: those come and go. */
import type { Migration } from '../../kernel/database/migrate.ts';

/**
 * A configuration names what of a schema is searched. Its vectors belong to a generation, which never changes what it is
 * made with: another model or other fields make a new generation beside the old one, which is searched until then.
 * `version` counts the changes of its vectors; who writes them holds its row, so they appear in the order of the numbers.
 */
const configs = `
  create table penstock.embeddings_configs (
    id uuid primary key,
    schema_name text not null,
    target_field text not null,
    enabled boolean not null,
    generation_id uuid not null,
    next_generation_id uuid,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    unique (schema_name, target_field)
  );
  create table penstock.embeddings_generations (
    id uuid primary key,
    config_id uuid not null,
    source_fields text[] not null,
    provider text not null,
    model text not null,
    dimensions integer not null,
    similarity text not null,
    language text not null,
    version bigint not null default 0,
    created_at timestamptz(3) not null default now()
  );
  create index embeddings_generations_of_config on penstock.embeddings_generations (config_id);
`;

/**
 * One row for each passage, and at least one for each record that was looked at: without a vector when it has no text, or
 * when there is no model. \`words\` is of the record and begins with the mark of the generation, so that one index serves
 * all of them. A record that is gone leaves a row without either, until nodes have heard of it.
 */
const vectors = `
  create table penstock.embeddings_vectors (
    generation_id uuid not null,
    record_id text not null,
    ordinal integer not null,
    starts integer not null,
    ends integer not null,
    hash bytea,
    version bigint not null,
    vector bytea,
    written_at timestamptz(3) not null default now(),
    primary key (generation_id, record_id, ordinal)
  );
  create index embeddings_vectors_by_version on penstock.embeddings_vectors (generation_id, version);
  create index embeddings_vectors_gone on penstock.embeddings_vectors (written_at) where hash is null;
  create table penstock.embeddings_words (
    generation_id uuid not null,
    record_id text not null,
    words tsvector not null,
    primary key (generation_id, record_id)
  );
  create index embeddings_words_search on penstock.embeddings_words using gin (words) with (fastupdate = off);
`;

/**
 * What is to be done: one row for each record and generation, however often it was changed. \`claim\` says who works on it;
 * \`dirty\`: it was changed since. \`position\`: up to where events were looked at.
 */
const work = `
  create table penstock.embeddings_pending (
    generation_id uuid not null,
    record_id text not null,
    run_id uuid,
    state text not null default 'waiting',
    dirty boolean not null default false,
    attempts integer not null default 0,
    due_at timestamptz(3) not null default now(),
    since timestamptz(3) not null default now(),
    claim uuid,
    claimed_until timestamptz(3),
    error text,
    permanent boolean not null default false,
    primary key (generation_id, record_id)
  );
  create index embeddings_pending_due on penstock.embeddings_pending (due_at) where state = 'waiting';
  create index embeddings_pending_failed on penstock.embeddings_pending (due_at) where state = 'failed';
  create index embeddings_pending_of_run on penstock.embeddings_pending (run_id) where run_id is not null;
  create table penstock.embeddings_position (
    only_row boolean primary key default true check (only_row),
    position bigint not null
  );
  create table penstock.embeddings_runs (
    id uuid primary key,
    schema_name text not null,
    config_id uuid not null,
    generation_id uuid not null,
    state text not null,
    position text,
    scanned boolean not null default false,
    batch_size integer not null,
    only_missing boolean not null,
    filter jsonb,
    scanned_count bigint not null default 0,
    queued_count bigint not null default 0,
    error text,
    started_at timestamptz(3),
    finished_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create unique index embeddings_runs_active on penstock.embeddings_runs (config_id) where state in ('queued', 'running');
  create index embeddings_runs_by_time on penstock.embeddings_runs (created_at desc, id desc);
  create table penstock.embeddings_usage (
    day date not null,
    provider text not null,
    requests bigint not null,
    texts bigint not null,
    tokens bigint not null,
    primary key (day, provider)
  );
`;

/**
 * Words as texts write them, with their pieces of three letters: by these a word is found that somebody writes otherwise.
 * No extension is needed, and all generations share the index. `field_options`: weight and language of fields.
 */
const terms = `
  alter table penstock.embeddings_generations add column field_options jsonb not null default '{}';
  create table penstock.embeddings_terms (
    generation_id uuid not null,
    term text not null,
    pieces text[] not null,
    primary key (generation_id, term)
  );
  create index embeddings_terms_pieces on penstock.embeddings_terms using gin (pieces) with (fastupdate = off);
`;

/**
 * How many records have a word, and which words each has, so that a word goes with the last record that has it. Words that
 * were there before count once more than that, and stay as long as their generation.
 */
const termUses = `
  alter table penstock.embeddings_terms add column uses integer not null default 1;
  alter table penstock.embeddings_terms alter column uses drop default;
  alter table penstock.embeddings_terms set (fillfactor = 80);
  alter table penstock.embeddings_words add column terms text[] not null default '{}';
`;

/** What the model of a generation is told before each text, and whether it is asked for vectors of a length. */
const instructions = `
  alter table penstock.embeddings_generations add column query_prefix text not null default '',
    add column passage_prefix text not null default '', add column send_dimensions boolean not null default false;
`;

/** What stands in the files of a record, so that a search can show where its words are. It goes with the words. */
const contents = 'alter table penstock.embeddings_words add column content text;';

/** Words of what waits for its vectors may be there already: they are made while a model is away. */
const worded = `
  alter table penstock.embeddings_pending add column worded boolean not null default false;
  create index embeddings_pending_wordless on penstock.embeddings_pending (due_at) where state = 'waiting' and not worded;
`;

export const migrations: readonly Migration[] = [
  { id: '0001-configs', run: async (database) => void (await database.query({ text: configs })) },
  { id: '0002-vectors', run: async (database) => void (await database.query({ text: vectors })) },
  { id: '0003-work', run: async (database) => void (await database.query({ text: work })) },
  { id: '0004-terms', run: async (database) => void (await database.query({ text: terms })) },
  { id: '0005-uses', run: async (database) => void (await database.query({ text: termUses })) },
  {
    id: '0006-instructions',
    run: async (database) => void (await database.query({ text: instructions })),
  },
  {
    id: '0007-contents',
    run: async (database) => void (await database.query({ text: contents })),
  },
  { id: '0008-worded', run: async (database) => void (await database.query({ text: worded })) },
];
