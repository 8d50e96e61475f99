/** Shows what a change plan would do to the tables as they are now. Nothing is locked and nothing is changed. */
import { checksumInSlices } from '../../../kernel/canonical.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import { compileDeclaration, type Declaration } from '../compile/declaration.ts';
import { tableName } from '../compile/layout.ts';
import type { DeclarationChange } from './declaration-change.ts';
import { droppedAround } from './dropped.ts';
import { createIndexText, isLarge } from './index-steps.ts';
import type { ChangeStep, PlanLoss, PlanRename, PlanStep, SchemaPlan } from './schema-plan.ts';
import {
  type ChangePlan,
  orderedSteps,
  type SchemaSnapshot,
  type TableWork,
  workOf,
} from './table-work.ts';

/** Records of one table that are looked at to say how many would lose something. */
const MAX_COUNTED = 100_000;

export async function previewOf(
  database: Queryable,
  snapshot: SchemaSnapshot,
  changePlan: ChangePlan,
): Promise<SchemaPlan> {
  const work = await workOf(snapshot, changePlan);
  const ordered = orderedSteps(snapshot, work, changePlan.destroy);
  const size = sizes(database, snapshot);
  const pause = createTimeSlices();
  const steps: PlanStep[] = [];
  const obstacles: SchemaPlan['obstacles'][number][] = [];
  for (const step of ordered) {
    await pause();
    steps.push(await stepView(database, step, size));
    obstacles.push(
      ...(await obstaclesOf(database, step)).map((problem) => ({
        ...problem,
        schema: step.schema,
      })),
    );
  }
  const schemas = [
    ...changePlan.drafts.map(({ declaration }) => declaration.name),
    ...changePlan.destroy,
  ];
  return {
    schema: schemas.join(', '),
    steps,
    destructive: steps.some((step) => step.destructive),
    renames: changePlan.drafts.flatMap(renamesOf),
    hides: await hidden(database, snapshot, work),
    loses: await lost(database, changePlan, size),
    obstacles,
    checksum: await checksumInSlices(steps.map(({ statement }) => statement)),
    after: await compiledAfter(snapshot, work, changePlan),
  };
}

const renamesOf = ({
  declaration: { name: schema },
  renames,
}: DeclarationChange): readonly PlanRename[] =>
  renames.flatMap((names) => [...names].map(([from, to]) => ({ schema, from, to })));

type Size = (schema: string) => Promise<number>;

/** Records of a table, as far as is known without counting many. Asked once per table. */
function sizes(database: Queryable, snapshot: SchemaSnapshot): Size {
  const known = new Map<string, Promise<number>>();
  const ask = async (schema: string): Promise<number> => {
    if (!snapshot.has(schema.toLowerCase())) return 0;
    const { rows } = await database.query<{ n: number }>({
      text: `select greatest((select count(*) from (select 1 from ${tableName(schema)} limit 10001) some_rows),
        (select reltuples from pg_class where oid = ${literalOf(tableName(schema), 'regclass')})::bigint)::float8 as n`,
    });
    return rows[0]?.n ?? 0;
  };
  return (schema) => {
    const size = known.get(schema) ?? ask(schema);
    known.set(schema, size);
    return size;
  };
}

async function stepView(database: Queryable, step: ChangeStep, size: Size): Promise<PlanStep> {
  const { schema, statement, summary, lock, destructive, touchesRows = false, index } = step;
  const rows = touchesRows ? await size(schema) : 0;
  if (!index || rows === 0 || !(await isLarge(database, schema)))
    return { schema, statement, summary, lock, destructive, rows };
  const concurrent = createIndexText(schema, index.name, index.layout, true);
  return {
    schema,
    statement: concurrent,
    summary,
    lock: 'SHARE UPDATE EXCLUSIVE',
    destructive,
    rows,
    later: true,
  };
}

/** No such table or column: it comes with the change, and has no records yet. */
const notThereYet = new Set(['42P01', '42703']);

async function obstaclesOf(
  database: Queryable,
  { obstacle }: ChangeStep,
): Promise<readonly Problem[]> {
  if (!obstacle) return [];
  try {
    const { rows } = await database.query({ text: obstacle.query });
    return rows.length > 0 ? (obstacle.error(rows).errors ?? []) : [];
  } catch (error) {
    if (notThereYet.has(codeOf(error) ?? '')) return [];
    throw error;
  }
}

/** Fields that the change takes out. */
async function hidden(
  database: Queryable,
  snapshot: SchemaSnapshot,
  work: readonly TableWork[],
): Promise<readonly PlanLoss[]> {
  const losses: PlanLoss[] = [];
  for (const { declaration } of work) {
    const before = snapshot.get(declaration.name.toLowerCase());
    if (!before || before.removed) continue;
    const fresh = Object.keys(declaration.dropped).filter(
      (path) => !Object.hasOwn(before.dropped, path),
    );
    for (const field of fresh.filter((path) => !droppedAround(declaration.dropped, path))) {
      if (!Object.hasOwn(before.layout.columns, field.split('.')[0] ?? '')) continue;
      losses.push({
        schema: declaration.name,
        field,
        records: await recordsWith(database, declaration.name, field),
      });
    }
  }
  return losses;
}

async function lost(
  database: Queryable,
  { drafts, destroy }: ChangePlan,
  size: Size,
): Promise<readonly PlanLoss[]> {
  const losses: PlanLoss[] = [];
  for (const schema of destroy) losses.push({ schema, field: '*', records: await size(schema) });
  for (const { declaration, purge } of drafts) {
    for (const field of purge)
      losses.push({
        schema: declaration.name,
        field,
        records: await recordsWith(database, declaration.name, field),
      });
  }
  return losses;
}

/** Records that have a value in the column of a field, among the first of the table. */
async function recordsWith(database: Queryable, schema: string, field: string): Promise<number> {
  const column = identifier(field.split('.')[0] ?? '');
  const { rows } = await database.query<{ n: number }>({
    text: `select count(v)::integer as n from (select ${column} as v from ${tableName(schema)} limit ${MAX_COUNTED}) some_rows`,
  });
  return rows[0]?.n ?? 0;
}

/** The schemas that were asked for, as they would be. */
async function compiledAfter(
  snapshot: SchemaSnapshot,
  work: readonly TableWork[],
  { destroy }: ChangePlan,
): Promise<SchemaPlan['after']> {
  const next = new Map<string, Declaration>(snapshot);
  for (const name of destroy) next.delete(name.toLowerCase());
  for (const { declaration } of work) next.set(declaration.name.toLowerCase(), declaration);
  const live = new Set(
    [...next.values()].filter(({ removed }) => !removed).map(({ name }) => name),
  );
  const pause = createTimeSlices();
  const compiled: CompiledSchema[] = [];
  for (const { declaration, intended } of work) {
    if (!intended || declaration.removed) continue;
    compiled.push(compileDeclaration(declaration, (name) => live.has(name)));
    await pause();
  }
  return compiled;
}
