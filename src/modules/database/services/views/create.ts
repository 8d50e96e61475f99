/** Views (spec/database.md 5.14): made by modules in the closed query language, served like schemas, read-only. */
import type { Caller } from '../../../../kernel/caller.ts';
import { system } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import type { PermissionPort } from '../../../../kernel/permissions.ts';
import { parseFilter } from '../../../../kernel/records/filter/parse.ts';
import { resolveFilter } from '../../../../kernel/records/filter/resolve.ts';
import { openColumn } from '../../../../kernel/records/render.ts';
import type { CompiledSchema } from '../../../../kernel/schema/compiled.ts';
import { schemaErrors } from '../../../../kernel/schema/errors.ts';
import { schemaNameFault } from '../../../../kernel/schema/names.ts';
import type { SchemaRegistry } from '../../../../kernel/schema/registry.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { dropView, forgetView, lockViews, madeViews, makeView, type StoredView, saveView, storedViews } from '../../view-queries.ts';
import { adoptedView, type NewView, VIEW_SCHEMA, type View, viewFields } from './definition.ts';
import { literalParameters } from './literals.ts';

export interface ViewParts {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly log: Logger;
}

export interface Views {
  /** Makes a view, or makes it anew. Only the platform itself may (403). Throws 400, 404 and 409. */
  create(caller: Caller, view: NewView): Promise<CompiledSchema>;
  /** Throws 403 and 404. Nothing of the records goes away. */
  remove(caller: Caller, name: string): Promise<void>;
  list(): Promise<readonly View[]>;
  /**
   * Makes those anew whose sources were `changed` in a way that matters, such as records that now have a trash.
   * Without `changed`, those that are stored and missing, as after a backup was brought back.
   */
  renew(changed?: readonly string[]): Promise<void>;
}

const me = system('database: views');

export function createViews(parts: ViewParts): Views {
  const { database, schemas, log } = parts;
  const isView = ({ mapping }: CompiledSchema): boolean => mapping?.source.schema === VIEW_SCHEMA;

  return {
    async create(caller, { name, schema, select, query = {} }) {
      requireSystem(caller);
      const fault = schemaNameFault(name);
      if (fault) throw invalid('name', 'name', fault);
      const existing = schemas.get(name);
      if (existing && !isView(existing)) throw schemaErrors.SCHEMA_EXISTS();
      const source = sourceOf(schemas, schema);
      const view: View = { name: existing?.name ?? name, schema: source.name, select: viewFields(source, select), query };
      await make(parts, { view, statement: await viewText(parts, source, view) });
      const [made] = await schemas.apply(caller, { kind: 'adopt', tables: [adoptedView(source, view)] });
      if (!made) throw schemaErrors.SCHEMA_NOT_FOUND();
      return made;
    },
    async remove(caller, name) {
      requireSystem(caller);
      const view = schemas.get(name);
      if (!view || !isView(view)) throw schemaErrors.SCHEMA_NOT_FOUND({ message: `There is no view ${name.slice(0, 64)}` });
      await schemas.remove(caller, [view._id], { deleteData: false });
      await database.transaction(async (transaction) => {
        await dropView(transaction, view.name);
        await forgetView(transaction, view.name);
      });
    },
    list: async () => (await storedViews(database)).map(({ view }) => view),
    async renew(changed) {
      const made = changed ? undefined : await madeViews(database);
      for (const stored of await storedViews(database)) {
        const { name, schema } = stored.view;
        if (made?.has(name) || (changed && !changed.includes(schema))) continue;
        try {
          await renewed(parts, stored, changed === undefined);
        } catch (error) {
          log.warn({ err: error, view: name }, 'A view could not be made anew; it is as it was, or missing');
        }
      }
    },
  };
}

/** What a view asks for may not be there any more; whoever changed the schema is not to blame. */
async function renewed(parts: ViewParts, { view, statement }: StoredView, missing: boolean): Promise<void> {
  const source = parts.schemas.get(view.schema);
  if (!source) return;
  const now = await viewText(parts, source, view);
  if (missing || now !== statement) await make(parts, { view, statement: now });
}

const make = ({ database }: ViewParts, stored: StoredView): Promise<void> =>
  database.transaction(async (transaction) => {
    await lockViews(transaction);
    await makeView(transaction, stored);
    await saveView(transaction, stored);
  });

function requireSystem(caller: Caller): void {
  if (caller.kind !== 'system')
    throw errors.FORBIDDEN({ message: 'Views are made by modules: they show records whatever the permissions say' });
}

/** Throws 404, and 400 for a schema whose records are not in a table of the platform. */
function sourceOf(schemas: SchemaRegistry, name: string): CompiledSchema {
  const source = schemas.get(name);
  if (!source) throw schemaErrors.SCHEMA_NOT_FOUND();
  if (source.mapping)
    throw invalid('schema', 'imported', `${source.name} is laid over a table of others, or a view: make the view in that database`);
  return source;
}

/** What is hidden or was taken out inside a nested field is not in the view at all. */
function columnText(source: CompiledSchema, name: string): string {
  const column = `t0.${identifier(name)}`;
  const shown = openColumn(source, name, column);
  return shown === column ? column : `${shown} as ${identifier(name)}`;
}

/** The select that a view stands for. Values stand in it as text: a definition takes no parameters. */
async function viewText(parts: ViewParts, source: CompiledSchema, { select, query }: View): Promise<string> {
  const filter = await resolveFilter(parts, { caller: me, schema: source, condition: parseFilter(query) });
  const times = source.modelOptions.timestamps ? ['createdAt', 'updatedAt'] : [];
  const columns = ['_id', ...select, ...times].map((name) => columnText(source, name)).join(', ');
  return `select ${columns} from ${source.rows} t0 where ${filter.compile('t0', literalParameters())}`;
}
