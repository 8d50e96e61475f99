/** The cross-origin part of a surface's configuration (spec/core.md 6.3, spec/router.md 3), the same for each surface. */
import Type from 'typebox';

export interface CorsDefaults {
  /** For descriptions: `admin` or `client`. */
  readonly surface: string;
  /** Comma lists. */
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
}

/** The `cors` block of a configuration. */
export const corsConfig = ({ surface, allowedHeaders, exposedHeaders }: CorsDefaults) =>
  Type.Object({
    enabled: Type.Boolean({ default: true, description: `Whether other origins may call the ${surface} surface from a browser.` }),
    origin: Type.String({ default: '*', description: 'Allowed origins, separated by commas. `*` allows all, then without credentials.' }),
    methods: Type.String({ default: 'GET,HEAD,PUT,PATCH,POST,DELETE', description: 'Allowed methods, separated by commas.' }),
    allowedHeaders: Type.String({ default: allowedHeaders, description: 'Request headers that browsers may send.' }),
    exposedHeaders: Type.String({ default: exposedHeaders, description: 'Response headers that scripts may read.' }),
    credentials: Type.Boolean({ default: true, description: 'Whether browsers may send cookies. Without effect while origin is `*`.' }),
    maxAge: Type.Integer({
      minimum: 0,
      maximum: 86_400,
      default: 86_400,
      description: 'Seconds that browsers may keep a preflight answer.',
    }),
  });

/** Problems of an `origin` list, for the `check` of a configuration. */
export function originProblems(origin: string): readonly { path: string; rule: string; message: string }[] {
  const wrong = origin
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '' && part !== '*' && !isOrigin(part));
  return wrong.length === 0
    ? []
    : [{ path: 'cors.origin', rule: 'format', message: 'must list origins such as https://panel.example.com' }];
}

const isOrigin = (text: string): boolean => URL.canParse(text) && new URL(text).origin === text;
