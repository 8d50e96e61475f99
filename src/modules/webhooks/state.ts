/** Endpoints as state, by name. Secrets are none: an endpoint that an import creates gets a new one, to be rotated. */
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
} from '../../kernel/state.ts';
import { NewEndpointShape } from './operations/shapes.ts';
import { allEndpoints, type EndpointSettings, endpointIdOf } from './queries.ts';
import type { Endpoints, NewEndpoint } from './services/endpoints.ts';

export const webhookState = (database: Database, endpoints: Endpoints): StateType => ({
  module: 'webhooks',
  type: 'endpoints',
  reportDamaged: true,
  priority: 50,
  document: NewEndpointShape,
  keyOf: ({ name }) => String(name),
  touches: (document) => endpoints.touchedBy(document as unknown as NewEndpoint),
  export: async () => (await allEndpoints(database)).map(documentOf),
  async complete(caller, documents, whole) {
    const made = new Set(
      whole.documents('database', 'schemas').map(({ document }) => document.name),
    );
    const completed: StateDocument[] = [];
    for (const { document, place } of documents) {
      const given = document as unknown as NewEndpoint;
      // Schemas that the same import makes are not there yet.
      const schemas = (given.schemas ?? []).filter((name) => !made.has(name));
      const isMade = schemas.length < (given.schemas ?? []).length;
      const asked = isMade ? { ...given, schemas, condition: null } : given;
      const settings = await placed(place, () => endpoints.read(caller, asked));
      const { enabled = true, condition = null } = given;
      const own = { schemas: given.schemas ?? [], condition };
      completed.push(documentOf({ ...settings, ...own, enabled }));
    }
    return completed;
  },
  async apply(caller, changes) {
    for (const change of changes)
      await applyOne(endpoints, caller, change, await endpointIdOf(database, change.key));
  },
});

/** What is as it would be anyway is not said. */
const documentOf = ({
  name,
  url,
  events,
  description,
  schemas,
  condition,
  payload,
  ordered,
  enabled,
}: EndpointSettings & { readonly enabled: boolean }): StateDocument => ({
  ...{ name, url, events: [...events], payload, enabled },
  ...(description !== '' && { description }),
  ...(schemas.length > 0 && { schemas: [...schemas] }),
  ...(condition !== null && { condition }),
  ...(ordered && { ordered }),
});

/** Whole: what a document does not say has its default. */
const omitted = { description: '', schemas: [], condition: null, ordered: false } as const;

async function applyOne(
  endpoints: Endpoints,
  caller: Caller,
  { after }: StateChange,
  id: string | undefined,
): Promise<void> {
  const given = after && ({ ...omitted, ...after } as unknown as NewEndpoint);
  if (given && id !== undefined) await endpoints.update(caller, id, given);
  else if (given) await endpoints.create(caller, given);
  else if (id !== undefined) await endpoints.remove(caller, id);
}
