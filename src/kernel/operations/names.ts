/** Names that other protocols give to routes. Stable: clients and models remember them. */
import type { Method } from '../operation.ts';

/**
 * The MCP tool name of a route (spec/core.md 9.4).
 * @example mcpToolName('DELETE', '/api-tokens/:id') // delete_apitokens_id
 */
export function mcpToolName(method: Method, path: string): string {
  const segments = path
    .replace(/^\/admin\//, '/')
    .split('/')
    .map((segment) => segment.replace(/[^A-Za-z0-9]/g, '').toLowerCase())
    .filter((segment) => segment !== '');
  return [method.toLowerCase(), ...segments].join('_');
}

/**
 * The name of a route in GraphQL and its OpenAPI `operationId` (spec/router.md 5.8): the method, then each
 * segment with its first letter raised. `-`, `:` and the like are dropped and raise nothing after them.
 * @example camelName('GET', '/database/Post/:id') // getDatabasePostId
 * @example camelName('POST', '/local/change-password') // postLocalChangepassword
 */
export function camelName(method: Method, path: string): string {
  const words = path.split('/').map((segment) => segment.replace(/\W/g, ''));
  return method.toLowerCase() + words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('');
}
