import { expect, it } from 'vitest';
import { camelName, mcpToolName } from './registry.ts';

it.each([
  ['POST', '/api-tokens', 'post_apitokens'],
  ['DELETE', '/api-tokens/:id', 'delete_apitokens_id'],
  ['POST', '/authorization/relations/many', 'post_authorization_relations_many'],
  ['GET', '/ready', 'get_ready'],
  ['GET', '/admin/email/templates', 'get_email_templates'],
] as const)('names the tool of %s %s', (method, path, name) =>
  expect(mcpToolName(method, path)).toBe(name),
);

it('names operations for GraphQL and OpenAPI', () => {
  expect(camelName('GET', '/database/Post/:id')).toBe('getDatabasePostId');
  expect(camelName('PATCH', '/database/Post/many')).toBe('patchDatabasePostMany');
  expect(camelName('POST', '/api-tokens')).toBe('postApitokens');
  expect(camelName('POST', '/authentication/local/change-password')).toBe(
    'postAuthenticationLocalChangepassword',
  );
  expect(camelName('GET', '/database/blog_post')).toBe('getDatabaseBlog_post');
  expect(camelName('GET', '/.well-known/jwks.json')).toBe('getWellknownJwksjson');
});
