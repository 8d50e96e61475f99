/** Custom endpoints as state. */
import Type from 'typebox';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { unknownActions } from '../../../kernel/action-uses.ts';
import { schemaObject } from '../../../kernel/authority.ts';
import { sameValue } from '../../../kernel/canonical.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import type { StateChange, StateDocument, StateImport, StateType } from '../../../kernel/state.ts';
import { newEndpoint } from '../operations/endpoints.ts';
import type { EndpointBody } from '../services/endpoints/admin.ts';
import type { EndpointDefinition, StoredEndpoint } from '../services/endpoints/definition.ts';
import type { Endpoints } from '../services/endpoints/serving.ts';
import { type Declarations, databaseModule } from './declared.ts';

interface Parts {
  readonly endpoints: Pick<Endpoints, 'admin' | 'store' | 'serving'>;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly declarations: Declarations;
}

/** Schemas are told by name: ids differ between installations. The export of endpoints says two things more. */
const EndpointDocument = Type.Object({
  ...Type.Omit(newEndpoint, ['selectedSchema', 'selectedSchemaName']).properties,
  selectedSchemaName: Type.String({ maxLength: 64 }),
  returns: Type.Optional(Type.Unknown()),
  enabled: Type.Optional(Type.Unknown()),
});

export const endpointState = ({
  endpoints: { admin, store, serving },
  schemas,
  declarations,
}: Parts): StateType => ({
  module: databaseModule,
  type: 'customEndpoints',
  priority: 20,
  document: EndpointDocument,
  keyOf: ({ name }) => String(name),
  touches: ({ selectedSchemaName }) => schemaObject(schemas.get(String(selectedSchemaName))),
  export: async () =>
    store
      .all()
      .filter(({ damage }) => damage === undefined)
      .map(documentOf),
  async complete(caller, documents, whole) {
    const { registry } = await declarations.after(caller, whole);
    const kept = new Set(
      documents.filter(({ document }) => isUnserved({ store, serving }, document)),
    );
    const unknown = documents.filter(
      (one) => !kept.has(one) && !registry.get(String(one.document.selectedSchemaName)),
    );
    if (unknown.length > 0) throw invalidInput(unknown.map(({ place }) => missingSchema(place)));
    return documents.map((one) => {
      const { document, place } = one;
      if (kept.has(one)) return document;
      return { ...admin.defined(document as EndpointBody, `${place}.`, registry) };
    });
  },
  async check(caller, changes, whole) {
    const { registry } = await declarations.after(caller, whole);
    // What could not be completed stands here as it was sent, and is refused anyway.
    for (const { after } of changes)
      if (after?.assignments)
        admin.requireReach(caller, after as unknown as EndpointDefinition, registry);
    requireDistinct(store.all(), whole);
    await requireKnownActions(admin, changes, whole);
  },
  async apply(caller, changes) {
    const requested = changes.flatMap(({ after }) =>
      after ? [after as unknown as EndpointDefinition] : [],
    );
    if (requested.length > 0) await store.import(caller, requested);
    for (const { action, key } of changes) {
      const stored = action === 'delete' ? store.all().find(({ name }) => name === key) : undefined;
      if (stored) await store.remove(caller, stored._id);
    }
  },
});

/** It is there as it is written and does not fit its schema: an export holds it, and importing that changes nothing. */
function isUnserved(
  { store, serving }: Pick<Endpoints, 'store' | 'serving'>,
  document: StateDocument,
): boolean {
  const stored = store.all().find(({ name }) => name === document.name);
  return (
    stored !== undefined &&
    sameValue(documentOf(stored), document) &&
    serving.problems(stored).length > 0
  );
}

function documentOf({
  _id,
  __v,
  createdAt,
  updatedAt,
  ...definition
}: StoredEndpoint): StateDocument {
  return { ...definition };
}

const missingSchema = (place: string): Problem => ({
  path: `${place}.selectedSchemaName`,
  rule: 'exists',
  message: 'there is no schema of this name, and none comes with the document',
});

/** An action that an endpoint asks for is one that its type has now, or will have with the same import. */
async function requireKnownActions(
  { knowsAction }: Pick<Endpoints['admin'], 'knowsAction'>,
  changes: readonly StateChange[],
  whole: StateImport,
): Promise<void> {
  const asked = changes.flatMap(({ after, place }) => {
    const requires = after?.requires as EndpointDefinition['requires'] | undefined;
    if (!requires) return [];
    const schema = requires.record?.schema ?? String(after?.selectedSchemaName);
    return [{ schema, action: requires.action, place: `${place}.requires.action` }];
  });
  const problems = await unknownActions(whole, asked, knowsAction);
  if (problems.length > 0) throw invalidInput([...problems]);
}

/** As the database compares names, because generated clients do. */
const plain = (name: string): string => name.replaceAll(/[_-]/g, '').toLowerCase();

function requireDistinct(stored: readonly StoredEndpoint[], whole: StateImport): void {
  const names = new Map(stored.map(({ name }) => [plain(name), name]));
  const problems = whole
    .changes(databaseModule, 'customEndpoints')
    .flatMap(({ action, key, place }): readonly Problem[] => {
      if (action === 'delete') return [];
      const other = names.get(plain(key));
      names.set(plain(key), key);
      // What goes does so after what comes, so it is in the way too.
      if (other === undefined || other === key) return [];
      return [
        {
          path: `${place}.name`,
          rule: 'unique',
          message: `differs from ${other} in case and punctuation only`,
        },
      ];
    });
  if (problems.length > 0) throw invalidInput(problems);
}
