/** The records whose vectors are nearest to a given one, by looking at all that fit a filter. One statement. */

import { identifier } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { VectorField } from '../../schema/language/field.ts';
import { shortName } from '../../schema/language/names.ts';
import { checkerOf } from '../../schema/language/values.ts';
import { boundedPage, requireWhole } from '../answer-bytes.ts';
import { invalidRecord, recordErrors } from '../errors.ts';
import type { NearestOptions } from '../store.ts';
import type { RecordDependencies } from './record-view.ts';
import { createRenderContext, recordJson, selectList } from './render.ts';
import { chosen, filteredStatement, type Selection, selectionText } from './selection.ts';

/** Vectors that one search looks at. */
const MAX_SCANNED = 50_000;

/** Distances between the pairs (a, b) of two vectors; smaller is nearer. Null: there is none. */
const distances: Readonly<Record<VectorField['similarity'], string>> = {
  cosine: '1 - sum(a * b) / nullif(sqrt(sum(a * a)) * sqrt(sum(b * b)), 0)',
  euclidean: 'sqrt(sum((a - b) * (a - b)))',
  dotProduct: '-sum(a * b)',
};

/** From the distance of a hit to a score from 0 to 1, higher is nearer (spec/embeddings.md 5.7). */
const scores: Readonly<Record<VectorField['similarity'], string>> = {
  cosine: '(2 - top.d) / 2',
  euclidean: '1 / (1 + top.d)',
  // Beyond these the exponential leaves the range of a double, and the score is 0 or 1 anyway.
  dotProduct: '1 / (1 + exp(greatest(-700, least(700, top.d))))',
};

export interface NearestRequest extends NearestOptions {
  /** The caller may search by a field that is hidden. */
  readonly hidden: boolean;
}

/** A JSON list of `{document, score, distance, metric, provider}`, nearest first. */
export async function nearestSelected(
  dependencies: RecordDependencies,
  selection: Selection,
  options: NearestRequest,
): Promise<string> {
  const { schema, view } = selection;
  const { dimensions, similarity } = vectorField(selection, options);
  const requested = checkedVector(options.vector, { dimensions, similarity });
  const column = `t0.${identifier(options.field)}`;
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = selectionText(selection, parameters);
    const list = selectList(
      schema,
      't0',
      view.populate,
      createRenderContext(parameters, view.conditions),
    );
    const vector = `${parameters.next(requested)}::real[]`;
    const limit = `${parameters.next(options.limit)}::integer`;
    const pairs = `unnest(s.v::double precision[], ${vector}::double precision[]) pair(a, b)`;
    const record = chosen(schema, recordJson(schema, 'x'), options.select);
    const raw = similarity === 'dotProduct' ? `, 'raw', -top.d` : '';
    const hit = `json_build_object('document', (${record})::json, 'score', ${scores[similarity]}, 'distance', top.d, 'metric', '${similarity}', 'provider', 'exact'${raw})`;
    const hits = `select (${hit})::text as t from top join (select ${list} from ${schema.rows} t0 where t0."_id" in (select id from top)) x on x."_id" = top.id order by top.d, top.id`;
    return (
      `with s as materialized (select t0."_id" as id, ${column} as v from ${schema.rows} t0 where ${where} and ${column} is not null limit ${MAX_SCANNED + 1}), ` +
      `top as materialized (select id, d from (select s.id, (select ${distances[similarity]} from ${pairs}) as d from s ` +
      `where (select count(*) from s) <= ${MAX_SCANNED}) measured where d is not null order by d, id limit ${limit}) ` +
      `select (select count(*)::integer from s) as scanned, '[' || coalesce((select p.page from (${boundedPage(hits, { limit: options.limit, related: view.populate.size > 0 })}) p), '') || ']' as json`
    );
  });
  const { rows } = await dependencies.database.query<{ scanned: number; json: string }>(statement);
  const [row] = rows;
  if ((row?.scanned ?? 0) > MAX_SCANNED) {
    throw recordErrors.RECORD_LIMIT_EXCEEDED({
      message: `More than ${MAX_SCANNED} vectors would have to be looked at: narrow the filter`,
    });
  }
  return requireWhole(row?.json ?? '[]');
}

/** Throws 400, also for a hidden one: whether it is there is nobody's business. */
function vectorField({ schema }: Selection, { field: name, hidden }: NearestRequest): VectorField {
  const field = schema.tree.fields.get(name);
  if (field?.kind !== 'vector' || (field.hidden && !hidden))
    throw invalid('field', 'field', `"${shortName(name)}" is not a Vector of ${schema.name}`);
  return field;
}

function checkedVector(
  vector: readonly number[],
  { dimensions, similarity }: Pick<VectorField, 'dimensions' | 'similarity'>,
): unknown {
  const problems: Parameters<typeof invalidRecord>[0][number][] = [];
  const plain = { required: true, unique: false, hidden: false, indexed: false } as const;
  const checked = checkerOf({ kind: 'vector', dimensions, similarity, ...plain })(
    vector,
    'vector',
    problems,
  );
  if (problems.length === 0 && similarity === 'cosine' && vector.every((n) => Math.fround(n) === 0))
    problems.push({
      path: 'vector',
      rule: 'zero',
      message: 'has no direction: cosine similarity needs a number that is not 0',
    });
  if (problems.length > 0) throw invalidRecord(problems);
  return checked;
}
