/**
 * The data set that is measured: people, teams in a tree, and records that teams
 * and people own and share. Made inside PostgreSQL, so that a million tuples
 * take seconds.
 */
import type { Database } from '../../src/kernel/database/database.ts';
import { parseDefinition } from '../../src/modules/authorization/model/definition.ts';
import { buildModel, type Model } from '../../src/modules/authorization/model/model.ts';
import { beginTracking } from '../../src/modules/authorization/services/row-tracking.ts';
import { trackedOid } from '../../src/modules/authorization/tuple-sql.ts';

/** How many there are of everything, from the number of tuples. */
export interface Size {
  readonly tuples: number;
  readonly users: number;
  readonly teams: number;
  readonly records: number;
}

export const sizeOf = (tuples: number): Size => ({
  tuples,
  users: tuples / 10,
  teams: tuples / 200,
  records: tuples / 2,
});

/** People who stand for a kind, by number. All others have numbers above. */
export const people = {
  /** Reads what the team of the whole company owns: four of five records. */
  reader: 0,
  /** Sees ten records. */
  newcomer: 1,
  /** Reads through every team of the tree. */
  head: 2,
} as const;
const firstOther = 3;

const teamReaders = ['owner', 'readAll', 'editAll', 'owner->read', 'owner->edit'];

/** Teams and records as the platform defines them. */
export const benchModel: Model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Team',
      relations: {
        member: ['User'],
        owner: ['User', 'Team'],
        readAll: ['User', 'Team'],
        editAll: ['User', 'Team'],
      },
      permissions: {
        read: teamReaders,
        edit: ['owner', 'editAll', 'owner->edit'],
        delete: ['owner', 'owner->delete'],
      },
    },
    {
      name: 'Doc',
      relations: { owner: ['User', 'Team'], reader: ['User', 'Team'], editor: ['User', 'Team'] },
      permissions: {
        read: ['reader', 'reader->read', 'editor', 'editor->read', 'owner', 'owner->read'],
        edit: ['editor', 'editor->edit', 'owner', 'owner->edit'],
        delete: ['editor', 'editor->delete', 'owner', 'owner->delete'],
      },
    },
  ].map(parseDefinition),
  // No definition is stored: the revision that the database knows.
  0,
);

const kinds = ['User', 'Team', 'Doc'] as const;
export type Kind = (typeof kinds)[number];

const prefixOf = (kind: Kind): string => `0198f000-0000-7${kinds.indexOf(kind) + 1}00-8000-`;

/** Id of the n-th object of a kind. */
export const idOf = (kind: Kind, n: number): string =>
  `${prefixOf(kind)}${n.toString(16).padStart(12, '0')}`;

/** The same in SQL. */
const sqlId = (kind: Kind, n: string): string =>
  `('${prefixOf(kind)}' || lpad(to_hex((${n})::bigint), 12, '0'))`;

interface Tuples {
  /** SQL of numbers, which may use `n`. */
  readonly subject: string;
  readonly subjectKind: Exclude<Kind, 'Doc'>;
  readonly relation: string;
  readonly resource: string;
  readonly resourceKind: Exclude<Kind, 'User'>;
  /** Gives `n`. */
  readonly from: string;
}

/** Numbers below `count` of which small ones are common: a few have much, most have little. */
const skewed = (count: number): string => `floor(${count} * power(random(), 2))`;
const even = (count: number): string => `floor(${count} * random())`;
const series = (from: number, to: number, step = 1): string =>
  `generate_series(${from}, ${Math.floor(to)}, ${step}) n`;

function structure({ users, teams, records }: Size): readonly Tuples[] {
  const team = { subjectKind: 'Team', resourceKind: 'Team' } as const;
  const member = { subjectKind: 'User', resourceKind: 'Team' } as const;
  const owned = { relation: 'owner', resource: 'n', resourceKind: 'Doc' } as const;
  const others = users - firstOther;
  const nested = teams - 2;
  const someUser = `${firstOther} + ${even(others)}`;
  return [
    // Team 0 is the company, team 1 the top of a tree of all others in which each team has four below it: six levels at 5,000.
    {
      ...team,
      subject: '1 + floor((n - 2) / 4.0)',
      relation: 'owner',
      resource: 'n',
      from: series(2, teams - 1),
    },
    {
      ...member,
      subject: `${people.reader}`,
      relation: 'readAll',
      resource: '0',
      from: series(1, 1),
    },
    {
      ...member,
      subject: `${people.head}`,
      relation: 'readAll',
      resource: '1',
      from: series(1, 1),
    },
    { ...member, subject: someUser, relation: 'owner', resource: 'n', from: series(2, teams - 1) },
    {
      ...member,
      subject: 'n',
      relation: 'member',
      resource: `2 + ${skewed(nested)}`,
      from: series(firstOther, users - 1),
    },
    {
      ...member,
      subject: 'n',
      relation: 'readAll',
      resource: `2 + ${skewed(nested)}`,
      from: series(firstOther, users - 1, 10),
    },
    {
      ...owned,
      subjectKind: 'Team',
      subject: '0',
      from: `${series(0, records - 1)} where n % 5 <> 0`,
    },
    {
      ...owned,
      subjectKind: 'Team',
      subject: `2 + ${skewed(nested)}`,
      from: series(0, records - 1, 10),
    },
    {
      ...owned,
      subjectKind: 'User',
      subject: `${firstOther} + ${skewed(others)}`,
      from: series(5, records - 1, 10),
    },
    {
      subjectKind: 'User',
      subject: `${people.newcomer}`,
      relation: 'reader',
      resource: `n * ${records / 10} + 7`,
      resourceKind: 'Doc',
      from: series(0, 9),
    },
  ];
}

/** What is left to the number of tuples: records that are shared with people, and one in ten with a team. */
function shares({ users, teams, records }: Size, count: number): readonly Tuples[] {
  const share = { relation: 'editor', resource: skewed(records), resourceKind: 'Doc' } as const;
  return [
    {
      ...share,
      subjectKind: 'User',
      subject: `${firstOther} + ${even(users - firstOther)}`,
      from: series(1, count * 0.9),
    },
    {
      ...share,
      subjectKind: 'Team',
      subject: `2 + ${skewed(teams - 2)}`,
      from: series(1, count * 0.1),
    },
  ];
}

/** Quoted name of the table of the records. */
export const docTable = 'app."Doc"';

/** As the module writes them: of those about records it is noted that they lead to rows. */
const insertText = ({
  subject,
  subjectKind,
  relation,
  resource,
  resourceKind,
  from,
}: Tuples): string =>
  `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id, row_of)
   select gen_random_uuid(), '${subjectKind}', ${sqlId(subjectKind, subject)}, '${relation}', '${resourceKind}', ${sqlId(resourceKind, resource)},
     ${resourceKind === 'Doc' ? trackedOid('Doc', docTable) : 'null'}
     from ${from} on conflict do nothing`;

/** Fills an empty database that has the tables of the module. */
export async function fill(database: Database, size: Size): Promise<void> {
  const run = async (...texts: readonly string[]): Promise<void> => {
    await database.transaction(async (transaction) => {
      for (const text of ['set local statement_timeout = 0', 'select setseed(0.42)', ...texts])
        await transaction.query({ text });
    });
  };
  await run(
    'create schema if not exists app',
    `create table ${docTable} (_id uuid primary key, title text not null, body text not null,
      "createdAt" timestamptz(3) not null default now(), "updatedAt" timestamptz(3) not null default now(), "__v" integer not null default 0)`,
    `insert into ${docTable} (_id, title, body)
      select ${sqlId('Doc', 'n')}::uuid, 'Document ' || n, repeat('x', 120) from ${series(0, size.records - 1)}`,
  );
  await beginTracking(database, 'Doc', docTable);
  await run(...structure(size).map(insertText));
  const { rows } = await database.query<{ count: number }>({
    text: 'select count(*)::integer as count from penstock.tuples',
  });
  await run(...shares(size, size.tuples - (rows[0]?.count ?? 0)).map(insertText));
  for (const table of ['penstock.tuples', 'penstock.tuple_changes', docTable])
    await database.query({ text: `vacuum (analyze, parallel 0) ${table}` });
}
