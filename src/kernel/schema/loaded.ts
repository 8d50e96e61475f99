/** The declarations as this node has them now, compiled. */
import type { CompiledSchema } from './compiled.ts';
import { compileDeclaration, type Declaration } from './declaration.ts';
import { schemaErrors } from './errors.ts';

export interface LoadedSchemas {
  get(name: string): CompiledSchema | undefined;
  byId(id: string): CompiledSchema | undefined;
  all(): readonly CompiledSchema[];
  declaration(name: string): Declaration | undefined;
  /** Name of a schema by its id. Throws 404. */
  nameOf(id: string): string;
  /** Reads everything anew; listeners have run when it resolves. Calls never overtake each other. */
  refresh(): Promise<void>;
  onChange(listener: (changed: readonly string[]) => void | Promise<void>): void;
}

interface Snapshot {
  readonly byName: ReadonlyMap<string, CompiledSchema>;
  readonly byId: ReadonlyMap<string, CompiledSchema>;
  readonly all: readonly CompiledSchema[];
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** What each compiled schema was made from. */
  readonly keys: ReadonlyMap<string, string>;
}

const nothing: Snapshot = { byName: new Map(), byId: new Map(), all: [], declarations: new Map(), keys: new Map() };

export function createLoadedSchemas(load: () => Promise<readonly Declaration[]>): LoadedSchemas {
  let snapshot = nothing;
  let queue: Promise<void> = Promise.resolve();
  const listeners: ((changed: readonly string[]) => void | Promise<void>)[] = [];

  async function refreshNow(): Promise<void> {
    const declarations = (await load()).filter(({ removed }) => !removed);
    const previous = snapshot;
    snapshot = compileAll(declarations, previous);
    const names = new Set([...previous.byName.keys(), ...snapshot.byName.keys()]);
    const changed = [...names].filter((name) => previous.byName.get(name) !== snapshot.byName.get(name)).sort();
    if (changed.length === 0) return;
    for (const listener of listeners) await listener(changed);
  }

  return {
    get: (name) => snapshot.byName.get(name),
    byId: (id) => snapshot.byId.get(id),
    all: () => snapshot.all,
    declaration: (name) => snapshot.declarations.get(name),
    nameOf(id) {
      const schema = snapshot.byId.get(id);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return schema.name;
    },
    refresh() {
      const next = queue.then(refreshNow, refreshNow);
      queue = next.catch(() => {});
      return next;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

/** Compiles what is new; a schema that did not change stays the same object, so that caches keyed by it stay valid. */
function compileAll(declarations: readonly Declaration[], previous: Snapshot): Snapshot {
  const names = new Set(declarations.map(({ name }) => name));
  const exists = (name: string): boolean => names.has(name);
  const keys = new Map<string, string>();
  const all = declarations.map((declaration) => {
    const links = Object.keys(declaration.layout.foreignKeys).sort().join();
    const key = `${declaration.id}:${declaration.version}:${links}`;
    keys.set(declaration.name, key);
    const known = previous.byName.get(declaration.name);
    // Relation lists have no foreign key: whether their target exists has to be looked at by itself.
    const unchanged = known && previous.keys.get(declaration.name) === key && samePending(known, exists);
    return unchanged ? known : compileDeclaration(declaration, exists);
  });
  return {
    byName: new Map(all.map((schema) => [schema.name, schema])),
    byId: new Map(all.map((schema) => [schema._id, schema])),
    all: [...all].sort((a, b) => (a.name < b.name ? -1 : 1)),
    declarations: new Map(declarations.map((declaration) => [declaration.name, declaration])),
    keys,
  };
}

function samePending(schema: CompiledSchema, exists: (name: string) => boolean): boolean {
  const pending = new Set(schema.pendingRelations);
  return [...schema.relations.values()].every(({ model }) => exists(model) !== pending.has(model));
}
