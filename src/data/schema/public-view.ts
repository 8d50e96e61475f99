/**
 * What a reference shows of a record to callers who may not read its schema: a few fields that were marked, such as
 * the name of a user. The module that owns a schema sets its view; it is a schema of its own, in which everything else
 * is hidden, so that nothing shows the rest, sorts by it or filters by it.
 */
import { identifier } from '../../kernel/database/sql.ts';
import type { CompiledSchema } from './compile/compiled.ts';
import type { Field } from './language/field.ts';

export interface PublicView {
  /** Names of the fields that are shown. Unknown ones are passed over. */
  readonly fields: ReadonlySet<string>;
  /** Whether callers without an account see it too. */
  readonly visitors: boolean;
  /** A yes-or-no field that must be yes for the record to be shown. */
  readonly onlyIf?: string;
}

export interface PublicViews {
  get(schema: string): PublicView | undefined;
  /** `undefined` takes the view away. */
  set(schema: string, view: PublicView | undefined): void;
}

export function createPublicViews(): PublicViews {
  const views = new Map<string, PublicView>();
  return {
    get: (schema) => views.get(schema),
    set(schema, view) {
      if (view) views.set(schema, view);
      else views.delete(schema);
    },
  };
}

const made = new WeakMap<CompiledSchema, WeakMap<PublicView, CompiledSchema>>();

/** The schema as its view shows it; the same object for the same two. */
export function publicSchema(schema: CompiledSchema, view: PublicView): CompiledSchema {
  let known = made.get(schema);
  if (!known) {
    known = new WeakMap();
    made.set(schema, known);
  }
  let narrowed = known.get(view);
  if (!narrowed) {
    narrowed = narrow(schema, view);
    known.set(view, narrowed);
  }
  return narrowed;
}

/** Fields that depend on who stands in a relation to the record are not shown: a view is the same for all who see it. */
function narrow(schema: CompiledSchema, { fields: marked, onlyIf }: PublicView): CompiledSchema {
  const fields = [...schema.tree.fields].map(([name, field]): [string, Field] => [
    name,
    marked.has(name) ? field : { ...field, hidden: true },
  ]);
  const visible = fields.flatMap(([name, { hidden }]) => (hidden ? [] : [name]));
  return {
    ...schema,
    isPublicView: true,
    fieldVisibility: {
      key: `public(${visible.join()})${onlyIf ?? ''}`,
      conditional: new Map(),
    },
    tree: { ...schema.tree, fields: new Map(fields) },
    sortable: new Set(),
    modelOptions: { ...schema.modelOptions, timestamps: false },
    rows: onlyIf
      ? `(select * from ${schema.rows} seen where seen.${identifier(onlyIf)})`
      : schema.rows,
  };
}
