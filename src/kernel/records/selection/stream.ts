/** All records that fit a condition, however many, as they are at one moment. */
import type { Statement } from '../../database/database.ts';
import { streamRows } from '../../database/stream-rows.ts';
import { errors, invalid } from '../../errors.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import { literalOf } from '../../schema/literal.ts';
import { shown } from '../../schema/names.ts';
import { mappedReadError } from '../mapped/errors.ts';
import { orderOf } from '../page/order.ts';
import { createParameters } from '../parameters.ts';
import type { RecordDependencies } from '../reads.ts';
import { createRenderContext, recordJson, selectList } from '../render.ts';
import type { StreamOptions } from '../store.ts';
import { type Selection, selectionText } from './selection.ts';

/** Each holds a connection for as long as its reader takes. */
const MAX_STREAMS = 3;
/** Seconds. */
const RETRY_AFTER = 10;

export interface RecordStreams {
  /** Batches of records as JSON. Throws 503 when too many are read at once. */
  read(dependencies: RecordDependencies, selection: Selection, options: StreamOptions): AsyncGenerator<readonly string[]>;
}

export function createRecordStreams(): RecordStreams {
  let open = 0;
  return {
    async *read({ database }, selection, options) {
      const statement = statementOf(selection, options);
      if (open >= MAX_STREAMS) throw tooMany();
      open++;
      try {
        const rows = streamRows<{ json: string }>(database, statement, {
          sizeOf: ({ json }) => json.length,
          ...(options.signal && { signal: options.signal }),
        });
        for await (const batch of rows) yield batch.map(({ json }) => json);
      } catch (error) {
        throw selection.schema.mapping ? mappedReadError(error) : error;
      } finally {
        open--;
      }
    },
  };
}

const tooMany = () =>
  errors.UNAVAILABLE({ message: `${MAX_STREAMS} exports are being read at this moment: wait for one of them`, retryAfter: RETRY_AFTER });

function statementOf(selection: Selection, { sort = [], select }: StreamOptions): Statement {
  const { schema, view } = selection;
  const order = orderOf(schema, sort);
  const parameters = createParameters();
  const where = selectionText(selection, parameters);
  const list = selectList(schema, 't0', view.populate, createRenderContext(parameters, view.conditions));
  const json = chosen(schema, recordJson(schema, 'x'), select);
  const rows = `select t0.* from ${schema.rows} t0 where ${where} order by ${order}`;
  return { text: `select (${json})::text as json from (select ${list} from (${rows}) t0) x`, values: parameters.values };
}

/** The record with the asked fields only, in the order of the schema. */
export function chosen(schema: CompiledSchema, json: string, select: readonly string[] | undefined): string {
  if (!select) return json;
  const known = new Set(recordFields(schema));
  const unknown = select.find((name) => !known.has(name));
  if (unknown !== undefined) throw invalid('select', 'field', `"${shown(unknown)}" is not a field of ${schema.name}`);
  const members = `string_agg(to_json(f.key)::text || ':' || f.value::text, ',')`;
  return `select '{' || ${members} || '}' from json_each(${json}) f where f.key = any(${literalOf(select, 'text[]')})`;
}

/** What records of a schema have on the wire, in order. */
export const recordFields = ({ tree, modelOptions }: CompiledSchema): readonly string[] => [
  '_id',
  ...[...tree.fields].flatMap(([name, { hidden }]) => (hidden ? [] : [name])),
  ...(modelOptions.timestamps ? ['createdAt', 'updatedAt'] : []),
  '__v',
];
