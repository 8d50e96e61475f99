import type { Migration } from '../database/migrate.ts';
import { countVersions } from '../freshness/migrations.ts';

/** One row for each route to which operators added something; `path` with its parameters unnamed (`/database/Post/:`). */
const table = `
  create table penstock.route_middlewares (
    route text primary key,
    middlewares text[] not null,
    version integer not null default 1,
    updated_at timestamptz(3) not null default now(),
    updated_by text not null
  );
`;

export const migrations: readonly Migration[] = [
  {
    id: '0001-route-middlewares',
    run: async (database) => void (await database.query({ text: table })),
  },
  countVersions('0002-version', 'penstock.route_middlewares', 'middlewares'),
];
