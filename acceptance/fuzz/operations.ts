/** What a running platform says about its operations in its OpenAPI documents. */
import { Compile, type Validator } from 'typebox/compile';
import type { Api, Json } from '../../test/support/api.ts';
import { resolveReferences } from '../openapi.ts';
import type { JsonSchema } from './arbitrary.ts';

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

export interface DescribedOperation {
  readonly id: string;
  /** `<module>.<subject>.<verb>`, as the platform itself names it. */
  readonly operation: string;
  readonly surface: 'client' | 'admin';
  readonly method: string;
  readonly path: string;
  /** Names of the credentials, each of which suffices; empty when none is needed. */
  readonly credentials: readonly string[];
  readonly parameters: readonly Parameter[];
  readonly body: JsonSchema | undefined;
  /** Content types by declared status. */
  readonly answers: ReadonlyMap<number, readonly string[]>;
  /** Checks a JSON answer of a declared status below 400. */
  check(status: number, body: unknown): readonly string[];
}

/** Reads `/swagger.json` of one surface. */
export async function describedOperations(
  surface: 'client' | 'admin',
  api: Api,
): Promise<DescribedOperation[]> {
  const document = (await api.get('/swagger.json')).body;
  const resolved = resolveReferences(document);
  return Object.entries<Json>(resolved.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item)
      .filter(([method]) => ['get', 'post', 'put', 'patch', 'delete'].includes(method))
      .map(([method, operation]) =>
        describe(
          { surface, path, method: method.toUpperCase() },
          { security: resolved.security, ...operation },
          item.parameters ?? [],
        ),
      ),
  );
}

function describe(
  place: Pick<DescribedOperation, 'surface' | 'path' | 'method'>,
  operation: Json,
  shared: Parameter[],
): DescribedOperation {
  const responses = Object.entries<Json>(operation.responses ?? {});
  const schemas = new Map<number, Json>();
  for (const [status, response] of responses) {
    const schema = response.content?.['application/json']?.schema;
    if (Number(status) < 400 && schema) schemas.set(Number(status), schema);
  }
  // Made when an answer comes: who only reads the list needs none of them.
  const validators = new Map<number, Validator>();
  return {
    ...place,
    id: operation.operationId ?? `${place.method} ${place.path}`,
    operation: operation['x-operation'] ?? '',
    credentials: (operation.security ?? []).flatMap((alternative: Json) =>
      Object.keys(alternative),
    ),
    parameters: [...shared, ...(operation.parameters ?? [])],
    body: operation.requestBody?.content?.['application/json']?.schema,
    answers: new Map(
      responses.flatMap(([declared, response]) =>
        statusesOf(declared, response).map(
          (status) => [status, Object.keys(response.content ?? {})] as const,
        ),
      ),
    ),
    check(status, body) {
      const schema = schemas.get(status);
      if (!schema) return [];
      const validator = validators.get(status) ?? Compile(schema);
      validators.set(status, validator);
      if (validator.Check(body)) return [];
      return validator.Errors(body).map((error) => `${error.instancePath}: ${error.message}`);
    },
  };
}

/** A range, or the default, declares the statuses of its examples and no others. */
function statusesOf(declared: string, { content }: Json): readonly number[] {
  if (/^\d{3}$/.test(declared)) return [Number(declared)];
  const examples = Object.values<Json>(content?.['application/json']?.examples ?? {});
  return [...new Set(examples.map(({ value }) => Number(value.status)))];
}
