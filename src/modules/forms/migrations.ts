/** Forms and what was sent with them. */
import type { Migration } from '../../kernel/database/migrate.ts';

/**
 * Submissions outlive their form, so they keep its name and no foreign key. `accepted` counts the submissions of forms
 * that take a bounded number. `form_uploads` lists files that no submission has yet: what stays there is deleted.
 */
const forms = `
  create table penstock.forms (
    id uuid primary key,
    name text not null,
    definition jsonb not null,
    enabled boolean not null,
    version integer not null default 1,
    accepted bigint not null default 0,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    constraint forms_name unique (name)
  );
  create table penstock.form_submissions (
    id uuid primary key,
    form_id uuid not null,
    form_name text not null,
    form_version integer not null,
    data jsonb not null,
    files jsonb not null,
    possible_spam boolean not null,
    signals jsonb not null,
    status text not null,
    user_id uuid,
    email text,
    ip_hash text not null,
    user_agent text,
    content_hash text not null,
    idempotency_hash text,
    request_hash text,
    confirm_hash text,
    confirmed_at timestamptz(3),
    screened_at timestamptz(3),
    delivered_at timestamptz(3),
    forwarded text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create index form_submissions_of_form on penstock.form_submissions (form_id, created_at, id);
  create index form_submissions_spam on penstock.form_submissions (form_id, possible_spam, created_at, id);
  create index form_submissions_of_user on penstock.form_submissions (user_id) where user_id is not null;
  create index form_submissions_of_email on penstock.form_submissions (email) where email is not null;
  create index form_submissions_by_time on penstock.form_submissions (created_at);
  create index form_submissions_unconfirmed on penstock.form_submissions (created_at) where status = 'unconfirmed';
  create index form_submissions_content on penstock.form_submissions (form_id, content_hash, created_at);
  create unique index form_submissions_idempotency on penstock.form_submissions (idempotency_hash) where idempotency_hash is not null;
  create unique index form_submissions_confirm on penstock.form_submissions (confirm_hash) where confirm_hash is not null;
  create table penstock.form_challenges (
    nonce text primary key,
    ends_at timestamptz(3) not null
  );
  create index form_challenges_by_end on penstock.form_challenges (ends_at);
  create table penstock.form_uploads (
    name text primary key,
    created_at timestamptz(3) not null default now()
  );
  create index form_uploads_by_time on penstock.form_uploads (created_at);
`;

/** Those that are delivered once mail is on again. */
const unsent = `
  create index form_submissions_unsent on penstock.form_submissions (created_at) where forwarded = 'off';
`;

const step = (id: string, text: string): Migration => ({
  id,
  run: async (database) => void (await database.query({ text })),
});

export const migrations: readonly Migration[] = [
  step('0001-forms', forms),
  step('0002-unsent', unsent),
];
