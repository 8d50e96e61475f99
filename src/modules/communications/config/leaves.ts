/** Leaves that the configuration of every channel is made of. */
import Type, { type TLiteral, type TUnion } from 'typebox';
import { sensitive } from '../../../kernel/config/config-definition.ts';

export const text = (description: string, value = '') =>
  Type.String({ default: value, maxLength: 500, description });
export const flag = (value: boolean, description: string) =>
  Type.Boolean({ default: value, description });
/** A private key in PEM; providers hand it out with `\n` written as two characters. */
export const privateKey = (description: string) =>
  sensitive({ description: `${description} Line breaks may be written as \\n.` });
export const secret = (description: string) => sensitive({ description });
export const endpoint = (usual: string) =>
  Type.String({
    default: '',
    maxLength: 500,
    description: `Base address instead of ${usual}: another region, a gateway, a test server.`,
  });

export const choice = <const T extends readonly string[]>(
  names: T,
  value: T[number],
  description: string,
) =>
  Type.Union(
    names.map((name) => Type.Literal(name)),
    { default: value, description },
  ) as unknown as TUnion<{ [K in keyof T]: TLiteral<T[K]> } & TLiteral<T[number]>[]>;

/** Providers that are asked one after the other. */
export const providerList = (names: readonly string[], description: string) =>
  Type.Array(Type.String({ pattern: `^(?:${names.join('|')})$` }), {
    default: [],
    maxItems: names.length,
    uniqueItems: true,
    description,
  });

/** What is wrong with a configuration, as `defineConfig` wants it. */
export interface ConfigProblem {
  readonly path: string;
  readonly rule: string;
  readonly message: string;
}

/** A base address that a request can be sent to. */
export const isAddress = (value: string): boolean =>
  value === '' || /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/.test(value);

/** Problems of addresses below `path`: every key named `endpoint`. */
export function addressProblems(value: unknown, path: string): ConfigProblem[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'endpoint' && typeof inner === 'string' && !isAddress(inner)
      ? [
          {
            path: `${path}.${key}`,
            rule: 'url',
            message: 'write an address like https://example.com',
          },
        ]
      : addressProblems(inner, `${path}.${key}`),
  );
}

/** PEM as crypto libraries want it, from what consoles hand out. */
export const pemOf = (key: string): string => key.replaceAll('\\n', '\n').trim();
