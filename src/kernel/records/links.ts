/**
 * Lists of relations must point to records that exist. PostgreSQL has no foreign keys for the
 * elements of arrays, so this asks before the write; single relations are left to their keys.
 */
import type { Queryable } from '../database/database.ts';
import type { Problem } from '../errors.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { invalidRecord } from './errors.ts';
import { runWrite, type WriteContext } from './write-context.ts';

/** A record that is about to be written. */
export interface LinkSource {
  /** In front of the names of its fields: empty, or `docs.3.`. */
  readonly place: string;
  value(field: string): unknown;
}

/** Throws 400 with the place of every id that leads nowhere. `undefined`: there is nothing to ask. */
export function requireLinks(context: WriteContext, sources: readonly LinkSource[], database?: Queryable): Promise<void> | undefined {
  const { schema, dependencies } = context;
  const questions: LinkQuestion[] = [];
  for (const [field, { model, many }] of schema.relations) {
    const target = many ? dependencies.schemas.get(model) : undefined;
    if (!target) continue;
    const places = placesOf(field, sources);
    if (places.size > 0) questions.push({ target, places });
  }
  return questions.length > 0 ? askAll(context, questions, database) : undefined;
}

interface LinkQuestion {
  readonly target: CompiledSchema;
  /** Where each id stands. */
  readonly places: ReadonlyMap<string, string>;
}

function placesOf(field: string, sources: readonly LinkSource[]): ReadonlyMap<string, string> {
  const places = new Map<string, string>();
  for (const { place, value } of sources) {
    const ids = value(field);
    if (Array.isArray(ids)) ids.forEach((id, i) => void places.set(String(id), `${place}${field}.${i}`));
  }
  return places;
}

async function askAll(context: WriteContext, questions: readonly LinkQuestion[], database?: Queryable): Promise<void> {
  const problems: Problem[] = [];
  for (const { target, places } of questions) {
    const text = `select id::text from unnest($1::uuid[]) id where not exists (select 1 from ${target.table} t where t."_id" = id)`;
    const rows = await runWrite<{ id: string }>(context, { text, values: [[...places.keys()]] }, database);
    for (const { id } of rows) {
      problems.push({ path: places.get(id) ?? '', rule: 'relation', message: `there is no such record of ${target.name}` });
    }
  }
  if (problems.length > 0) throw invalidRecord(problems);
}
