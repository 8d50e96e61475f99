import type { Api, Json } from './api.ts';
import type { TestPlatform } from './platform.ts';

/** Codes of the wire (spec/database.md 5.7). */
export const operation = { get: 0, post: 1, put: 2, delete: 3, patch: 4, aggregate: 5 } as const;
export const location = { body: 0, query: 1, path: 2 } as const;

export const input = (name: string, type: string, place: number, more: Json = {}): Json => ({
  name,
  type,
  location: place,
  ...more,
});

/** `[type, value]` is where the value comes from. */
export const compare = (
  schemaField: string,
  code: number,
  [type, value]: readonly [string, unknown],
  more: Json = {},
): Json => ({
  schemaField,
  operation: code,
  comparisonField: { type, value, ...more },
});

export const assign = (
  schemaField: string,
  action: number,
  type: string,
  value?: unknown,
): Json => ({
  schemaField,
  action,
  assignmentField: { type, value },
});

export interface EndpointBench {
  /** A new schema of posts with these records; answers its name. */
  posts(rows: readonly Json[], conduitOptions?: Json): Promise<string>;
  /** Stores an endpoint and answers it. */
  endpoint(name: string, definition: Json): Promise<Json>;
  /** Calls an endpoint that reads. */
  call: Api['get'];
}

/** What suites about custom endpoints do over and over. */
export function createEndpointBench(platform: TestPlatform): EndpointBench {
  let schemas = 0;
  return {
    async posts(rows, conduitOptions = {}) {
      const name = `Post${schemas++}`;
      const fields = {
        title: 'String',
        text: 'String',
        views: 'Number',
        likes: 'Number',
        day: 'Date',
        tags: ['String'],
        meta: 'JSON',
        secret: { type: 'String', select: false },
        author: { type: 'Relation', model: 'User' },
      } as const;
      await platform.createSchema({ name, fields, conduitOptions });
      for (const inputDocument of rows) {
        const { status, text } = await platform.client.post(`/database/${name}`, inputDocument);
        if (status !== 200) throw new Error(`record of ${name}: ${status} ${text}`);
      }
      return name;
    },
    async endpoint(name, definition) {
      const { status, text, body } = await platform.admin.post('/database/customEndpoints', {
        name,
        ...definition,
      });
      if (status !== 200) throw new Error(`endpoint ${name}: ${status} ${text}`);
      return body;
    },
    call: (path, options) => platform.client.get(`/database/function/${path}`, options),
  };
}

/** Titles of the records of an answer, in order of the alphabet. */
export const titles = (body: Json): string[] =>
  (body.documents ?? body).map(({ title }: Json) => title).sort();
