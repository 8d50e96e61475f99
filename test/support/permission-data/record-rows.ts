/** What records say about relations in the data sets of the model tests: by fields and lists instead of tuples, by columns beside them. */
import type { Database } from '../../../src/kernel/database/database.ts';
import { hasRecords, objectsOf, type WrittenTuple } from './data-sets.ts';

/** Data sets that are compared at once. */
export const BATCH = 20;

/** What records can say of relations: by a field and a list instead of tuples, by columns beside them. */
export const recordColumns = 'r1 uuid, r2 uuid[], c0 uuid, "c0Type" text, c1 uuid, "c1Type" text';

/** Types of records. */
export const recordTypes = Array.from({ length: BATCH }, (_, i) => i)
  .filter(hasRecords)
  .flatMap((dataSet) => [`Doc${dataSet}`, `Folder${dataSet}`]);

/** The records of data sets with fields, which say what these tuples say. Documents of such a data set are all there. */
export async function writeRecords(
  database: Database,
  tuples: readonly WrittenTuple[],
): Promise<void> {
  for (const type of recordTypes) {
    const [, kind = '', dataSet = ''] = /^(\D+)(\d+)$/.exec(type) ?? [];
    const ids = objectsOf(Number(dataSet), kind).map(({ id }) => id);
    const rows = ids.map((_id) => ({
      _id,
      ...saidBy(
        tuples.filter((t) => t.resource.type === type && t.resource.id === _id),
        `User${dataSet}`,
      ),
    }));
    const values = [JSON.stringify(rows)];
    const source = `json_to_recordset($1::json) as x(_id uuid, ${recordColumns})`;
    await database.query({ text: `truncate app."${type}"` });
    await database.query({ text: `insert into app."${type}" select * from ${source}`, values });
    if (kind === 'Doc')
      await database.query({
        text: `update rows d set ${saidColumns.map((name) => `"${name}" = x."${name}"`).join(', ')} from ${source} where d._id = x._id`,
        values,
      });
  }
}

const saidColumns = ['r1', 'r2', 'c0', 'c0Type', 'c1', 'c1Type'];

/** The columns of a record about which these tuples are. */
function saidBy(tuples: readonly WrittenTuple[], user: string): Record<string, unknown> {
  const fields = tuples.filter(({ inColumns }) => !inColumns);
  const listed = fields.filter(({ relation }) => relation === 'r2').map((t) => t.subject.id);
  const columns = tuples.filter(({ inColumns }) => inColumns);
  return {
    r1: fields.find(({ relation }) => relation === 'r1')?.subject.id ?? null,
    // Said twice is said once, and nothing said may be an empty list or none.
    r2: listed[0] ? [...listed, listed[0]] : null,
    ...Object.fromEntries(
      columns.flatMap(({ relation, subject: { type, id } }) => {
        const column = relation.replace('r', 'c');
        return [
          [column, id],
          [`${column}Type`, type === user ? null : type],
        ];
      }),
    ),
  };
}
