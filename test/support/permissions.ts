/** The admin surface of authorization in words that tests use. */
import type { Answer, Api, Json } from './api.ts';
import { expectStatus } from './node.ts';

export interface DefinitionBody {
  readonly name: string;
  readonly relations: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, unknown>>;
  readonly conditions?: Readonly<Record<string, unknown>>;
  readonly actAs?: string;
  readonly version?: number;
}

export interface PermissionsApi {
  define(definition: DefinitionBody): Promise<Json>;
  /** Writes `Subject relation Resource`, three words with spaces between them. */
  relate(...tuples: readonly string[]): Promise<Json[]>;
  /** Deletes the tuple again. */
  unrelate(tuple: string): Promise<void>;
  /** `Subject action Resource`. */
  ask(question: string): Promise<Answer<Json>>;
  can(question: string): Promise<boolean>;
  /** Ids of resources of a type, page by page: `Subject action Type`. */
  list(question: string, limit?: number): Promise<string[]>;
  /** Users who may: `action Resource`. */
  who(question: string): Promise<string[]>;
}

/** A test asks faster than any client may: the budget of its platform is made large. */
export async function liftLimits(admin: Api): Promise<void> {
  expectStatus(
    await admin.patch('/config/router', { rateLimit: { maxRequests: 1_000_000 } }),
    200,
    'lift the limits',
  );
}

const words = (text: string): [string, string, string] =>
  text.split(' ') as [string, string, string];

export function permissionsApi(admin: Api): PermissionsApi {
  const ask: PermissionsApi['ask'] = (text) => {
    const [subject, permission, resource] = words(text);
    return admin.get('/authorization/permissions/can', {
      query: { subject, permission, resource },
    });
  };
  const walk = async (
    path: string,
    query: Record<string, string | number>,
    key: string,
  ): Promise<string[]> => {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const options = { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } };
      const { body } = expectStatus(
        await admin.get(path, options),
        200,
        `${path} ${JSON.stringify(query)}`,
      );
      found.push(...body[key]);
      cursor = body.cursor;
    } while (cursor !== undefined);
    return found;
  };
  return {
    async define(definition) {
      const answer = await admin.post('/authorization/resources', definition);
      const { body } = expectStatus(answer, 200, `define ${definition.name}`);
      if (body.status === 'ignored') throw new Error(`${definition.name} has a higher version`);
      return body;
    },
    async relate(...tuples) {
      const written: Json[] = [];
      for (const text of tuples) {
        const [subject, relation, resource] = words(text);
        written.push(
          expectStatus(
            await admin.post('/authorization/relations', { subject, relation, resource }),
            200,
            text,
          ).body,
        );
      }
      return written;
    },
    async unrelate(text) {
      const [subject, relation, resource] = words(text);
      const { body } = expectStatus(
        await admin.delete('/authorization/relations', { query: { subject, relation, resource } }),
        200,
        text,
      );
      if (body.deleted !== 1) throw new Error(`${text} was not there`);
    },
    ask,
    can: async (text) => expectStatus(await ask(text), 200, text).body.allowed,
    list(text, limit = 100) {
      const [subject, permission, resourceType] = words(text);
      return walk(
        '/authorization/permissions/resources',
        { subject, permission, resourceType, limit },
        'resources',
      );
    },
    who(text) {
      const [permission, resource] = words(text);
      return walk(
        '/authorization/permissions/subjects',
        { permission, resource, limit: 100 },
        'subjects',
      );
    },
  };
}

/** The definitions of the acceptance vectors (spec/authorization.md 5.9). */
export const vectorDefinitions: readonly DefinitionBody[] = [
  {
    name: 'Doc',
    relations: { owner: ['User', 'Team'], editor: ['User', 'Team'], viewer: ['User', 'Team'] },
    permissions: {
      read: ['viewer', 'editor', 'owner', 'owner->read', 'viewer->read'],
      edit: ['editor', 'owner', 'owner->edit'],
      delete: ['owner'],
      open: ['*'],
      none: [],
    },
  },
  {
    name: 'Folder',
    relations: { owner: ['User', 'Team'], parent: ['Folder'] },
    permissions: { read: ['owner', 'owner->read', 'parent->read'] },
  },
];
