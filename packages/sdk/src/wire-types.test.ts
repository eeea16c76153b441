import type { RequestBody, RouteName, RouteQuery, RouteReply } from '@sandglass/contract'
import type { NAMED_FIELDS, OPAQUE_FIELDS } from '@sandglass/contract/tables'
import { expectTypeOf, test } from 'vitest'
import type { Body, Query, Reply } from './wire-types.ts'

type OpaqueField = (typeof OPAQUE_FIELDS)[number]
type NamedField = (typeof NAMED_FIELDS)[number]
type CamelKey<Key> = Key extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : Key
/** A shape of the contract under the SDK's names. */
type Camel<T> = T extends readonly (infer Item)[]
  ? Camel<Item>[]
  : T extends object
    ? {
        [Key in keyof T as CamelKey<Key>]: Key extends OpaqueField
          ? T[Key]
          : Key extends NamedField
            ? Named<T[Key]>
            : Camel<T[Key]>
      }
    : T
type Named<T> = T extends object ? { [Key in keyof T]: Camel<T[Key]> } : T
/** As it stands, without the aliases and intersections it is made of. */
type Plain<T> = T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T
type Wire<Of extends { [Name in RouteName]: unknown }> = { [Name in RouteName]: Plain<Camel<Of[Name]>> }
/** A body that may be absent has the same fields. */
type Given<T> = [T] extends [undefined] ? T : Exclude<T, undefined>
type Sdk<Of extends { [Name in RouteName]: unknown }> = { [Name in RouteName]: Plain<Of[Name]> }

test('the generated types are the ones that the contract infers', () => {
  expectTypeOf<Sdk<{ [Name in RouteName]: Reply<Name> }>>().toEqualTypeOf<Wire<{ [Name in RouteName]: RouteReply<Name> }>>()
  expectTypeOf<Sdk<{ [Name in RouteName]: Body<Name> }>>().toEqualTypeOf<
    Wire<{ [Name in RouteName]: Given<RequestBody<Name>> }>
  >()
  expectTypeOf<Sdk<{ [Name in RouteName]: Query<Name> }>>().toEqualTypeOf<Wire<{ [Name in RouteName]: RouteQuery<Name> }>>()
})
