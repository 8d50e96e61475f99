/** What operations must declare about the objects that their inputs name. */

/**
 * What the value of an input is about: a configuration document, a schema (name or id), a type of the permission model
 * (or an object of one), things that the service finds `inside` and asks about itself, or `open`: whoever may call at all
 * may name any.
 */
export type InputObject = 'config' | 'schema' | 'type' | 'inside' | 'open';

interface Declared {
  readonly surface: string;
  readonly access: string;
  readonly input: { readonly params?: unknown; readonly query?: unknown; readonly body?: unknown };
  readonly about?: Readonly<Record<string, InputObject>>;
}

/** Names of inputs that say which module, configuration, schema, type or route a call is about. */
const tellingName =
  /^(selected)?(module|config|schema|resource|type|extension|endpoint)(s|Name|Id|Type)?$|^(path|owner)$/i;

/** An input of the admin surface that may be about something of another module, and does not say so: scopes could not be asked about it. */
export function undeclaredObject({
  surface,
  access,
  input: { params, query, body },
  about = {},
}: Declared): string | undefined {
  const names = [params, query, body].flatMap((place) =>
    Object.keys((place as { properties?: object } | undefined)?.properties ?? {}),
  );
  const unknown = Object.keys(about).find((name) => !names.includes(name));
  if (unknown !== undefined) return `"about" names an input "${unknown}" that is not there`;
  if (surface === 'client' || access === 'public') return undefined;
  const undeclared = names.find((name) => tellingName.test(name) && !Object.hasOwn(about, name));
  return undeclared === undefined
    ? undefined
    : `"about" must say what the input "${undeclared}" is about`;
}
